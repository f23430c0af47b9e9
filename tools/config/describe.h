// The field table for people who write a configuration: a JSON Schema for their editor, a file to start from, and what
// one key means.
#pragma once

#include <string>
#include <string_view>

#include "tools/config/config.h"

namespace mixtape::config {

/// JSON Schema 2020-12 of a configuration, indented. It says what a schema can say: keys, types, ranges, words,
/// defaults, what is required. Rules between keys are `check_rules`' alone.
std::string json_schema();

/// A complete configuration to start from: every key with its default and a comment. It loads as it stands; the paths
/// in it are there to be changed.
std::string starting_file();

/// What the key or all keys of the section `path` take and do; their values and origins too when `config` is given. A
/// last part alone ("seed") will do where only one key has it; "" stands for all keys. Throws E-CONFIG-UNKNOWN-KEY
/// (config) with suggestions.
std::string explain(std::string_view path, const Config* config);

}  // namespace mixtape::config

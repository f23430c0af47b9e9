// The configuration for people and programs: values with their origin, and the generated reference page.
#pragma once

#include <string>

#include "tools/config/config.h"

namespace mixtape::config {

struct Field;

/// Whether the effective configuration holds the field: only what counts, so that loading it gives the same run again.
bool counts(const Config& config, const Field& field);

/// One line a field: `trainer.seed = 42   default`.
std::string show_text(const Config& config);

/// {"config":{…},"origins":{"trainer.seed":"default",…}}, indented.
std::string show_json(const Config& config);

/// docs/reference/config.md, from the field table.
std::string reference_page();

}  // namespace mixtape::config

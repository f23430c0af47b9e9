// Members of JSON values that tools/config has read: of the kind that is asked for, or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/config/json_locate.h"

namespace mixtape::report {

/// NaN for anything but a number: the log writes null for what is not finite.
double number(const config::Value& object, std::string_view key);
/// 0 for anything but a number that an int64_t holds.
int64_t integer(const config::Value& object, std::string_view key);
std::string text(const config::Value& object, std::string_view key);
bool truth(const config::Value& object, std::string_view key);
/// As a person would write it: strings bare, arrays with commas between.
std::string plain(const config::Value& value);

}  // namespace mixtape::report

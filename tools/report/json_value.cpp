#include "tools/report/json_value.h"

#include <cmath>
#include <limits>

namespace mixtape::report {
namespace {

const config::Value* member_of_kind(const config::Value& object, std::string_view key, config::Kind kind) {
  const config::Value* found = config::find_member(object, key);
  return found != nullptr && found->kind == kind ? found : nullptr;
}

}  // namespace

double number(const config::Value& object, std::string_view key) {
  const config::Value* found = member_of_kind(object, key, config::Kind::number);
  return found == nullptr ? std::numeric_limits<double>::quiet_NaN() : found->number;
}

int64_t integer(const config::Value& object, std::string_view key) {
  const double value = number(object, key);
  return std::abs(value) < 0x1p63 ? static_cast<int64_t>(value) : 0;
}

std::string text(const config::Value& object, std::string_view key) {
  const config::Value* found = member_of_kind(object, key, config::Kind::string);
  return found == nullptr ? "" : found->text;
}

bool truth(const config::Value& object, std::string_view key) {
  const config::Value* found = member_of_kind(object, key, config::Kind::boolean);
  return found != nullptr && found->boolean;
}

std::string plain(const config::Value& value) {
  if (value.kind != config::Kind::array) return value.text;
  std::string out;
  for (const config::Value& item : value.items) out += (out.empty() ? "" : ", ") + plain(item);
  return out;
}

}  // namespace mixtape::report

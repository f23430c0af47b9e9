#include "tools/trainer/json.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tools/config/json_locate.h"

namespace mixtape::trainer {

struct Json::Style {
  bool indented;
  void new_line(std::string& out, int depth) const {
    if (indented) out.append("\n").append(static_cast<size_t>(depth) * 2, ' ');
  }
};

Json::Json(double value) {
  if (std::isfinite(value))
    text_ = message(value);
  else
    nonfinite_ = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json::Json(int64_t value, int) : text_(message(value)) {}

Json::Json(std::string_view text) : text_(config::quote_json(text)) {}

Json& Json::set(std::string_view key, Json value) {
  keys_.emplace_back(key);
  items_.push_back(std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  items_.push_back(std::move(value));
  return *this;
}

std::string Json::line() const {
  std::string out;
  write(out, Style{.indented = false}, 0);
  return out;
}

std::string Json::pretty() const {
  std::string out;
  write(out, Style{.indented = true}, 0);
  return out + "\n";
}

bool Json::all_plain() const {
  return std::all_of(items_.begin(), items_.end(), [](const Json& item) { return item.kind_ == Kind::plain; });
}

std::string Json::nonfinite_members() const {
  std::string out;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const std::string_view kind = items_[i].nonfinite_;
    if (!kind.empty()) out += message(out.empty() ? "" : ",", config::quote_json(keys_[i]), ":\"", kind, "\"");
  }
  return out.empty() ? out : "{" + out + "}";
}

void Json::write(std::string& out, const Style& style, int depth) const {
  if (kind_ == Kind::plain) {
    out += text_;
    return;
  }
  const bool is_object = kind_ == Kind::object;
  const bool lines = !items_.empty() && (is_object || !all_plain());
  out += is_object ? '{' : '[';
  for (size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += style.indented && !lines ? ", " : ",";
    if (lines) style.new_line(out, depth + 1);
    if (is_object) out.append(config::quote_json(keys_[i])).append(style.indented ? ": " : ":");
    items_[i].write(out, style, depth + 1);
  }
  if (const std::string missing = nonfinite_members(); !missing.empty()) {
    out += ',';
    style.new_line(out, depth + 1);
    out.append("\"nonfinite\":").append(missing);
  }
  if (lines) style.new_line(out, depth);
  out += is_object ? '}' : ']';
}

}  // namespace mixtape::trainer

// Json: values to be written, as strict JSON with numbers in the shortest form that reads back as the same double.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::trainer {

/// A value of a log event or a report. Members keep the order in which they were set. A number that is not finite is
/// written as null, and the object that holds it gets a member `"nonfinite": {"loss": "nan"}`.
class Json {
 public:
  static Json object() { return Json(Kind::object); }
  static Json array() { return Json(Kind::array); }

  Json() = default;  ///< null
  Json(double value);
  Json(bool value) : text_(value ? "true" : "false") {}
  template <std::integral Integer>
  Json(Integer value) : Json(static_cast<int64_t>(value), 0) {}
  Json(std::string_view text);
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(const std::string& text) : Json(std::string_view(text)) {}
  /// An array of what the list holds.
  template <class Item>
  Json(const std::vector<Item>& items) : Json(Kind::array) {
    for (const Item& item : items) push(Json(item));
  }

  /// Appends a member to an object. Returns *this.
  Json& set(std::string_view key, Json value);
  /// Appends an item to an array. Returns *this.
  Json& push(Json value);

  /// On one line, without blanks and without a newline.
  std::string line() const;
  /// Indented by two blanks a level; arrays of plain values stay on one line; ends in a newline.
  std::string pretty() const;

 private:
  enum class Kind { plain, array, object };
  struct Style;

  explicit Json(Kind kind) : kind_(kind) {}
  Json(int64_t value, int);
  void write(std::string& out, const Style& style, int depth) const;
  bool all_plain() const;
  std::string nonfinite_members() const;

  Kind kind_ = Kind::plain;
  std::string text_ = "null";
  std::string_view nonfinite_ = {};  // "nan", "inf" or "-inf" for the null that stands for it
  std::vector<std::string> keys_;
  std::vector<Json> items_;
};

}  // namespace mixtape::trainer

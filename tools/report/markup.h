// Pieces of the page: figures for people, tables, sections. Whatever is called text is escaped here; html is taken as
// it stands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::report {

/// Four digits: "0.3952", "1.6e+04"; "not finite" for NaN and infinities.
std::string figure(double value);
/// "16,036".
std::string grouped(int64_t count);
std::string grouped(double count);  ///< rounded; "unknown" when it is not finite
/// "9.6 MiB".
std::string in_bytes(double bytes);
/// "0.30 s", "4 min 12 s", "2 h 03 min".
std::string duration(double seconds);
/// "12.4 %"; "0 %" only for 0, and "below 0.1 %" for what would look like it.
std::string percent(double share);
/// "1 step", "3 steps".
std::string plural(int64_t count, std::string_view what);
/// "65,536" for a whole number, else figure().
std::string scale_text(double scale);
/// The number as a power of two where it is one: "2^16" as html, else figure().
std::string power_html(double value);

std::string code_html(std::string_view text);
std::string paragraph(std::string_view text);
/// For what a reader should not miss.
std::string warning_html(std::string_view text);

/// A part of the page under a heading; `id` is for links.
std::string section(std::string_view id, std::string_view title, std::string_view body_html);
std::string subsection(std::string_view title, std::string_view body_html);
/// A line to be opened, and what stands behind it.
std::string folded(std::string_view summary, std::string_view body_html);

/// Rows under named columns. Wide ones scroll within themselves.
class Table {
 public:
  struct Column {
    std::string title;
    bool numeric = false;
  };
  Table(std::string caption, std::vector<Column> columns);
  /// One cell a column; the first names the row.
  void row(const std::vector<std::string>& cells_html);
  std::string html() const;
  bool empty() const { return rows_.empty(); }

 private:
  std::string caption_;
  std::vector<Column> columns_;
  std::string rows_;
};

}  // namespace mixtape::report

#include "data/survey.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "data/nfc.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {

constexpr size_t kMostLines = 10, kMostExamples = 5, kProgressRows = 1000;

bool has_control(std::string_view text) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    const char32_t code = decode_utf8(at, end);
    const bool blank = code == '\t' || code == '\n' || code == '\r';
    if ((code < 0x20 && !blank) || (code >= 0x7F && code < 0xA0)) return true;
  }
  return false;
}

int64_t percentile(const std::vector<int64_t>& sorted, int64_t percent) {
  const int64_t count = static_cast<int64_t>(sorted.size());
  return sorted[static_cast<size_t>(std::max<int64_t>(0, (count * percent + 99) / 100 - 1))];
}

void count_bytes(const Dataset& rows, SplitSurvey& out) {
  for (size_t i = 0; i < rows.texts.size(); ++i) {
    const std::string& text = rows.texts[i];
    if (!is_valid_utf8(text)) {
      ++out.ill_formed;
      if (out.ill_lines.size() < kMostLines) out.ill_lines.push_back(rows.lines[i]);
    }
    if (has_control(text)) ++out.controls;
    if (!is_nfc(text)) ++out.not_nfc;
  }
}

void count_duplicates(const Dataset& rows, SplitSurvey& out) {
  std::unordered_map<std::string_view, int32_t> labels;
  for (size_t i = 0; i < rows.texts.size(); ++i) {
    const auto [first, is_new] = labels.emplace(rows.texts[i], rows.labels[i]);
    if (is_new) continue;
    ++out.duplicates;
    if (first->second != rows.labels[i]) ++out.contradictions;
  }
}

void count_tokens(const Dataset& rows, const Tokenizer& tokenizer, int64_t max_length, SplitSurvey& out,
                  const std::function<void(int64_t)>& progress) {
  const int32_t unknown = tokenizer.vocab().special().unk;
  std::vector<int64_t> lengths;
  for (const std::string& text : rows.texts) {
    const std::vector<int32_t> ids = tokenizer.encode(text, false);
    const int64_t length = static_cast<int64_t>(ids.size()) + 2;
    lengths.push_back(length);
    out.pieces += length - 2;
    out.unknown += std::count(ids.begin(), ids.end(), unknown);
    if (length > max_length) ++out.cut;
    if (ids.empty()) ++out.empty;
    if (progress && lengths.size() % kProgressRows == 0) progress(static_cast<int64_t>(lengths.size()));
  }
  if (lengths.empty()) return;
  std::sort(lengths.begin(), lengths.end());
  out.lengths = {.min = lengths.front(),
                 .median = percentile(lengths, 50),
                 .p95 = percentile(lengths, 95),
                 .p99 = percentile(lengths, 99),
                 .max = lengths.back()};
}

}  // namespace

SplitSurvey survey(const Dataset& rows, const Tokenizer& tokenizer, int64_t max_length,
                   const std::function<void(int64_t)>& progress) {
  SplitSurvey out;
  out.split = rows.split;
  out.text_file = rows.text_file;
  out.rows = rows.rows();
  out.per_class = rows.per_class();
  count_tokens(rows, tokenizer, max_length, out, progress);
  count_duplicates(rows, out);
  count_bytes(rows, out);
  return out;
}

Leak find_leak(const Dataset& first, const Dataset& second) {
  Leak out{.splits = {first.split, second.split}, .files = {first.text_file, second.text_file}, .examples = {}};
  std::unordered_map<std::string_view, size_t> lines;
  for (size_t i = 0; i < first.texts.size(); ++i) lines.emplace(first.texts[i], first.lines[i]);
  for (size_t i = 0; i < second.texts.size(); ++i) {
    const auto found = lines.find(second.texts[i]);
    if (found == lines.end()) continue;
    ++out.rows;
    if (out.examples.size() < kMostExamples) out.examples.push_back({found->second, second.lines[i]});
  }
  return out;
}

}  // namespace mixtape::data

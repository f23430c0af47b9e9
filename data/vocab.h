// Vocabulary: the pieces of a BERT tokenizer, one a line; a piece's id is its line number counted from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mixtape::data {

/// Ids of the special tokens, looked up by name: they are not the same in every vocabulary.
struct SpecialIds {
  int32_t pad = -1, unk = -1, cls = -1, sep = -1;
  int32_t mask = -1;  ///< -1: the vocabulary has no [MASK]
};

/// Movable, not copyable (the index points into the tokens).
class Vocab {
 public:
  static constexpr uint64_t max_bytes = uint64_t{16} << 20;
  static constexpr size_t max_tokens = size_t{1} << 20;

  /// Reads `path`. Errors are kind data, with path:line: E-VOCAB-MISSING (no file), E-VOCAB-DUPLICATE, E-VOCAB-EMPTY (a
  /// blank line or no line), E-VOCAB-UTF8, E-VOCAB-SPECIAL ([PAD], [UNK], [CLS] or [SEP] is absent), E-VOCAB-SIZE (over
  /// 16 MiB or 2^20 lines).
  static Vocab load(const std::string& path);
  /// The same for a text in memory, under the name that messages shall give it. A leading byte order mark is skipped,
  /// lines are cut at LF with one optional CR before it.
  static Vocab parse(std::string_view text, const std::string& name);

  Vocab(Vocab&&) = default;
  Vocab& operator=(Vocab&&) = default;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  /// Throws E-VOCAB-ID outside 0..size()-1.
  std::string_view token(int64_t id) const;
  /// The token's id, or -1.
  int32_t find(std::string_view token) const;
  const SpecialIds& special() const { return special_; }
  const std::string& name() const { return name_; }

 private:
  Vocab() = default;
  void find_special_tokens();

  std::string name_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> index_;
  SpecialIds special_;
};

}  // namespace mixtape::data

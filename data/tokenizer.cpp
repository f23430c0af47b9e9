#include "data/tokenizer.h"

#include <limits>

#include "core/error.h"

namespace mixtape::data {

Tokenizer::Tokenizer(Vocab vocab, TokenizerOptions options)
    : vocab_(std::move(vocab)), options_(options), wordpiece_(vocab_) {
  if (options_.max_length < 0) {
    fail(ErrorKind::config, "E-TOKENIZER-LENGTH",
         message("max_length must be >= 0 (0: no limit), got ", options_.max_length));
  }
  const SpecialIds& ids = vocab_.special();
  for (const int32_t id : {ids.pad, ids.unk, ids.cls, ids.sep, ids.mask}) {
    if (id >= 0) special_.emplace_back(vocab_.token(id), id);
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  size_t limit =
      options_.max_length > 0 ? static_cast<size_t>(options_.max_length) : std::numeric_limits<size_t>::max();
  if (add_special_tokens) {
    if (limit < 2)
      fail(ErrorKind::config, "E-TOKENIZER-LENGTH", "max_length 1 leaves no room for [CLS] and [SEP]; use 2 or more");
    --limit;  // for [SEP]
  }
  Words words;
  std::vector<int32_t> ids;
  if (add_special_tokens) ids.push_back(vocab_.special().cls);
  size_t from = 0;
  while (options_.match_special_tokens && ids.size() < limit) {
    std::string_view token;
    int32_t id = -1;
    const size_t place = find_special(text, from, token, id);
    if (place == std::string_view::npos) break;
    encode_plain(text.substr(from, place - from), limit, words, ids);
    ids.push_back(id);
    from = place + token.size();
  }
  encode_plain(text.substr(from), limit, words, ids);
  if (ids.size() > limit) ids.resize(limit);
  if (add_special_tokens) ids.push_back(vocab_.special().sep);
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, size_t limit, Words& words, std::vector<int32_t>& ids) const {
  words.split(text, options_.lowercase);
  for (size_t i = 0; i < words.size() && ids.size() < limit; ++i) wordpiece_.encode(words[i], words.characters(i), ids);
}

size_t Tokenizer::find_special(std::string_view text, size_t from, std::string_view& token, int32_t& id) const {
  for (size_t at = text.find('[', from); at != std::string_view::npos; at = text.find('[', at + 1)) {
    for (const auto& [name, number] : special_) {
      if (text.substr(at).starts_with(name)) {
        token = name;
        id = number;
        return at;
      }
    }
  }
  return std::string_view::npos;
}

std::vector<std::string_view> Tokenizer::pieces(std::string_view text, bool add_special_tokens) const {
  std::vector<std::string_view> out;
  for (const int32_t id : encode(text, add_special_tokens)) out.push_back(vocab_.token(id));
  return out;
}

}  // namespace mixtape::data

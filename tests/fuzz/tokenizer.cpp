// Raw bytes as a text, under settings that the first byte chooses.
#include "data/tokenizer.h"

#include <map>

#include "tests/fuzz/target.h"

namespace mixtape::fuzz {
namespace {

const char* const vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nab\n##ab\ne\n##e\nthe\n##the\n!\n?\n.\n[\n]\n1\n##1\n"
    "\xC3\xA6\n##\xC3\xA6\n\xE4\xB8\xAD\n\xE1\x84\x80\n##\xE1\x85\xA1\n\xD0\xB8\n##\xD0\xB8\n";

const data::Tokenizer& tokenizer(int settings) {
  static std::map<int, data::Tokenizer> kept;
  const auto found = kept.find(settings);
  if (found != kept.end()) return found->second;
  data::TokenizerOptions options;
  options.lowercase = settings & 1;
  options.match_special_tokens = settings & 2;
  options.max_length = settings & 4 ? 2 + (settings >> 3) : 0;
  return kept.emplace(settings, data::Tokenizer(data::Vocab::parse(vocabulary, "vocab.txt"), options)).first->second;
}

}  // namespace

void check(std::string_view bytes) {
  if (bytes.empty()) return;
  const data::Tokenizer& all = tokenizer(static_cast<unsigned char>(bytes[0]) & 63);
  const std::string_view text = bytes.substr(1);
  const std::vector<int32_t> ids = all.encode(text);
  const auto limit = static_cast<size_t>(all.options().max_length);
  require(ids.size() >= 2 && (limit == 0 || ids.size() <= limit), "special tokens have their room, and a limit holds");
  require(ids.front() == all.vocab().special().cls && ids.back() == all.vocab().special().sep, "[CLS] text [SEP]");
  require(ids.size() <= bytes.size() + 2, "a piece takes a byte at least");
  for (const int32_t id : ids) require(id >= 0 && id < all.vocab().size(), "an id is one of the vocabulary's");
  require(all.pieces(text).size() == ids.size(), "a piece for each id");
}

}  // namespace mixtape::fuzz

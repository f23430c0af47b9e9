// A vocabulary: every token has its id, and the special ones are among them.
#include "data/vocab.h"

#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const data::Vocab vocab = data::Vocab::parse(bytes, "fuzz.txt");
  for (int64_t id = 0; id < vocab.size(); ++id) require(vocab.find(vocab.token(id)) == id, "a token has its line's id");
  for (const int32_t id : {vocab.special().pad, vocab.special().unk, vocab.special().cls, vocab.special().sep}) {
    require(id >= 0 && id < vocab.size(), "the special tokens are there");
  }
}

}  // namespace mixtape::fuzz

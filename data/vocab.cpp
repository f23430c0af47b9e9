#include "data/vocab.h"

#include <utility>

#include "core/error.h"
#include "data/file.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {
[[noreturn]] void fail_vocab(const char* code, const std::string& text) { fail(ErrorKind::data, code, text); }

void check_line(std::string_view line, const std::string& place) {
  if (line.empty()) {
    fail_vocab("E-VOCAB-EMPTY", message(place, ": blank line; expected one token a line, and every line takes an id"));
  }
  if (!is_valid_utf8(line)) {
    fail_vocab("E-VOCAB-UTF8", message(place, ": not UTF-8; save the vocabulary as UTF-8"));
  }
}
}  // namespace

Vocab Vocab::load(const std::string& path) {
  // The limit is checked by parse, whose message says what the file is.
  return parse(read_file(path, ErrorKind::data, "E-VOCAB-MISSING", max_bytes + 1), path);
}

Vocab Vocab::parse(std::string_view text, const std::string& name) {
  if (text.size() > max_bytes) {
    fail_vocab("E-VOCAB-SIZE", message(name, ": a vocabulary may have ", max_bytes, " bytes, this one has more"));
  }
  Vocab vocab;
  vocab.name_ = name;
  const std::vector<std::string_view> lines = split_lines(skip_bom(text));
  if (lines.empty()) fail_vocab("E-VOCAB-EMPTY", message(name, ": no tokens; expected one a line"));
  if (lines.size() > max_tokens) {
    fail_vocab("E-VOCAB-SIZE", message(at_line(name, max_tokens + 1), ": a vocabulary may have ", max_tokens,
                                       " tokens, this one has ", lines.size()));
  }
  vocab.tokens_.reserve(lines.size());  // the index points into the strings, which must not move
  vocab.index_.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    check_line(lines[i], at_line(name, i + 1));
    vocab.tokens_.emplace_back(lines[i]);
    const auto [entry, fresh] = vocab.index_.emplace(vocab.tokens_.back(), static_cast<int32_t>(i));
    if (!fresh) {
      fail_vocab("E-VOCAB-DUPLICATE", message(at_line(name, i + 1), ": the token of line ", entry->second + 1,
                                              " again; each token needs one id, remove the wrong line"));
    }
  }
  vocab.find_special_tokens();
  return vocab;
}

void Vocab::find_special_tokens() {
  const std::pair<const char*, int32_t*> wanted[] = {
      {"[PAD]", &special_.pad}, {"[UNK]", &special_.unk}, {"[CLS]", &special_.cls}, {"[SEP]", &special_.sep}};
  for (const auto& [token, id] : wanted) {
    *id = find(token);
    if (*id < 0) {
      fail_vocab("E-VOCAB-SPECIAL",
                 message(at_line(name_, tokens_.size()), ": the last line is reached and there was no ", token,
                         "; is this a BERT vocabulary?"));
    }
  }
  special_.mask = find("[MASK]");
}

std::string_view Vocab::token(int64_t id) const {
  if (id < 0 || id >= size()) {
    fail(ErrorKind::data, "E-VOCAB-ID",
         message("token id ", id, " is outside ", name_, ", which has ", size(), " tokens"));
  }
  return tokens_[static_cast<size_t>(id)];
}

int32_t Vocab::find(std::string_view token) const {
  const auto entry = index_.find(token);
  return entry == index_.end() ? -1 : entry->second;
}

}  // namespace mixtape::data

// mixtape tokenize --vocab FILE [FILE|-]: ids separated by spaces, a line for each line of text.
#include <memory>

#include "core/error.h"
#include "data/tokenizer.h"
#include "tools/commands.h"
#include "tools/lines.h"

namespace mixtape::tools {
namespace {

struct TokenizeOptions {
  std::string vocab;
  std::string file = "-";
  int64_t max_length = 0;
  bool no_special_tokens = false;
  bool no_match_special_tokens = false;
  bool cased = false;
  bool pieces = false;
};

void tokenize(const TokenizeOptions& options) {
  const data::Tokenizer tokenizer(data::Vocab::load(options.vocab),
                                  {.lowercase = !options.cased,
                                   .match_special_tokens = !options.no_match_special_tokens,
                                   .max_length = options.max_length});
  LineReader reader(options.file);
  LineWriter writer(reader);
  std::string out;
  for (std::string text; reader.next(text);) {
    out.clear();
    if (options.pieces) {
      for (const std::string_view piece : tokenizer.pieces(text, !options.no_special_tokens))
        out.append(piece).push_back(' ');
    } else {
      for (const int32_t id : tokenizer.encode(text, !options.no_special_tokens)) {
        text::append(out, id);
        out.push_back(' ');
      }
    }
    if (!out.empty()) out.pop_back();
    writer.add(out);
  }
  writer.finish();
}

}  // namespace

void add_tokenize(Program& program) {
  Verb verb = program.root.add("tokenize", "token ids of texts, one text a line");
  const auto options = std::make_shared<TokenizeOptions>();
  verb.option("--vocab", options->vocab,
              {.doc = "WordPiece vocabulary, one piece a line", .required = true, .placeholder = "FILE"});
  verb.option("FILE", options->file, {.doc = "texts, one a line; - is stdin", .shows_default = true});
  verb.option(
      "--max-length", options->max_length,
      {.doc = "cut longer texts; [CLS] and [SEP] count and stay", .placeholder = "N", .range = {1, int64_t{1} << 40}});
  verb.flag("--no-special-tokens", options->no_special_tokens, "without [CLS] and [SEP]");
  verb.flag("--no-match-special-tokens", options->no_match_special_tokens, "\"[SEP]\" in a text is plain text");
  verb.flag("--cased", options->cased, "for a cased vocabulary: keep upper case and accents");
  verb.flag("--pieces", options->pieces, "the pieces instead of their ids");
  verb.action([options] { tokenize(*options); });
}

}  // namespace mixtape::tools

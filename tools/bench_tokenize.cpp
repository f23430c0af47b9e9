// mixtape bench tokenize: texts a second on one core.
#include <fmt/format.h>

#include <chrono>

#include "data/tokenizer.h"
#include "tools/bench.h"
#include "tools/trainer/json.h"

namespace mixtape::tools {

std::string bench_tokenize(const std::string& vocab, bool lowercase, int64_t max_length,
                           const std::vector<std::string>& texts, bool json) {
  using Clock = std::chrono::steady_clock;
  const data::Tokenizer tokenizer(data::Vocab::load(vocab), {.lowercase = lowercase, .max_length = max_length});
  const auto pass = [&] {
    int64_t tokens = 0;
    for (const std::string& text : texts) tokens += std::ssize(tokenizer.encode(text));
    return tokens;
  };
  int64_t passes = 0, bytes = 0;
  const int64_t tokens = pass();  // warm-up
  for (const std::string& text : texts) bytes += std::ssize(text);
  double seconds = 0;
  for (const Clock::time_point start = Clock::now(); seconds < 1; ++passes) {
    (void)pass();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  const double rate = static_cast<double>(passes) / seconds;
  const double texts_per_s = rate * static_cast<double>(texts.size());
  const double tokens_per_s = rate * static_cast<double>(tokens), mb_per_s = rate * static_cast<double>(bytes) / 1e6;
  if (json) {
    return trainer::Json::object()
               .set("mode", "tokenize")
               .set("threads", 1)
               .set("texts", std::ssize(texts))
               .set("texts_per_s", texts_per_s)
               .set("tokens_per_s", tokens_per_s)
               .set("mb_per_s", mb_per_s)
               .line() +
           "\n";
  }
  return fmt::format("{} texts on one core: {:.0f} texts/s, {:.0f} tokens/s, {:.1f} MB/s\n", texts.size(), texts_per_s,
                     tokens_per_s, mb_per_s);
}

}  // namespace mixtape::tools

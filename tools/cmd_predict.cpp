// mixtape predict DIR [FILE|-]: a text a line in, a prediction a line out.
#include <filesystem>
#include <memory>
#include <vector>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/lines.h"
#include "tools/trainer/saved_run.h"

namespace mixtape::tools {
namespace {

struct PredictOptions {
  std::string dir, file = "-", format = "jsonl", dtype;
};

std::string as_json(const trainer::Prediction& prediction, const std::vector<std::string>& names) {
  trainer::Json probabilities = trainer::Json::object();
  for (size_t i = 0; i < names.size(); ++i) probabilities.set(names[i], prediction.probabilities[i]);
  const size_t label = static_cast<size_t>(prediction.label);
  return trainer::Json::object()
      .set("label", names[label])
      .set("score", prediction.probabilities[label])
      .set("probabilities", std::move(probabilities))
      .line();
}

std::string line_of(const trainer::Prediction& prediction, const std::vector<std::string>& names,
                    const std::string& format) {
  const size_t label = static_cast<size_t>(prediction.label);
  if (format == "jsonl") return as_json(prediction, names) + "\n";
  if (format == "label") return names[label] + "\n";
  return message(names[label], "\t", prediction.probabilities[label], "\n");
}

void predict(const PredictOptions& options) {
  constexpr size_t together = 32;
  trainer::Progress progress;
  LineReader reader(options.file);
  const trainer::SavedRun run(options.dir, options.dtype, progress);
  // Whoever writes into a pipe waits for each answer, and which lines have arrived together is chance there: last bits
  // may depend on it. A file is read in the same pieces each time.
  std::error_code ignored;
  const size_t most = std::filesystem::is_regular_file(options.file, ignored) ? together : 1;
  std::vector<std::string> texts;
  const auto answer = [&] {
    std::string lines;
    for (const trainer::Prediction& one : run.predict(texts)) lines += line_of(one, run.class_names(), options.format);
    print(lines);
    texts.clear();
  };
  for (std::string text; reader.next(text);) {
    texts.push_back(std::move(text));
    if (texts.size() == most) answer();
  }
  if (!texts.empty()) answer();
}

}  // namespace

void add_predict(Program& program) {
  Verb verb = program.root.add("predict", "a label for each line of text");
  const auto options = std::make_shared<PredictOptions>();
  verb.option("DIR", options->dir, {.doc = "the run directory", .required = true});
  verb.option("FILE", options->file, {.doc = "texts, one a line; - is stdin", .shows_default = true});
  verb.option("--format", options->format,
              {.doc = "jsonl: label, score and probabilities; label: the name; tsv: name, score",
               .shows_default = true,
               .words = {"jsonl", "label", "tsv"}});
  add_dtype_option(verb, options->dtype);
  verb.action([options] { predict(*options); });
}

}  // namespace mixtape::tools

// mixtape predict DIR [FILE|-]: a text a line in, a prediction a line out.
#include <memory>

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

void predict(const PredictOptions& options) {
  trainer::Progress progress;
  LineReader reader(options.file);
  const trainer::SavedRun run(options.dir, options.dtype, progress);
  const std::vector<std::string>& names = run.class_names();
  for (std::string text; reader.next(text);) {
    const trainer::Prediction prediction = run.predict(text);
    const size_t label = static_cast<size_t>(prediction.label);
    // Each at once: predicting is slow enough that whoever reads wants to see it.
    if (options.format == "jsonl")
      print(as_json(prediction, names) + "\n");
    else if (options.format == "label")
      print(names[label] + "\n");
    else
      print(message(names[label], "\t", prediction.probabilities[label], "\n"));
  }
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

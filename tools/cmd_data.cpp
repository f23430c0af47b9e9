// mixtape data check CONFIG: what is in the data, before anybody trains on them.
#include <cmath>
#include <memory>

#include "core/error.h"
#include "data/file.h"
#include "data/survey.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/json.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::tools {
namespace {

using trainer::Json;

struct DataOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
};

/// Everything that the verb found.
struct Findings {
  std::vector<std::string> class_names;
  std::vector<data::SplitSurvey> splits;
  std::vector<data::Leak> leaks;
  std::vector<std::string> warnings;
};

/// A share in percent, to two digits.
double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : std::round(1e4 * static_cast<double>(part) / static_cast<double>(whole)) / 100;
}

std::string lines_text(const std::string& file, const std::vector<size_t>& lines) {
  std::string out;
  for (const size_t line : lines) out += message(out.empty() ? "" : ", ", data::at_line(file, line));
  return out;
}

void warn_about(const config::Config& config, const std::vector<data::Dataset>& splits, Findings& found) {
  const auto warn = [&](const std::string& text) { found.warnings.push_back("warning W-DATA  " + text); };
  for (size_t i = 0; i < splits.size(); ++i) {
    const data::SplitSurvey& split = found.splits[i];
    for (const std::string& absent : splits[i].absent_classes()) warn(absent);
    if (split.contradictions > 0)
      warn(message(split.text_file, ": ", split.contradictions, " rows repeat a text with another label"));
    if (split.ill_formed > 0)
      warn(message(split.text_file, ": ", split.ill_formed,
                   " texts are not UTF-8; such bytes are dropped: ", lines_text(split.text_file, split.ill_lines)));
    if (split.empty > 0) warn(message(split.text_file, ": ", split.empty, " texts have no word in them"));
    if (split.unknown * 10 > split.pieces)
      warn(message(split.text_file, ": ", percent(split.unknown, split.pieces),
                   "% of the pieces are [UNK]: does the vocabulary fit the texts?"));
    if (split.cut * 20 > split.rows)
      warn(message(split.text_file, ": ", percent(split.cut, split.rows),
                   "% of the texts are cut at tokenizer.max_length = ", config.tokenizer.max_length));
  }
  const int64_t batch = config.trainer.per_device_train_batch_size;
  if (found.splits[0].rows < batch)
    warn(message(found.splits[0].text_file, ": ", found.splits[0].rows, " rows do not fill one batch of ", batch));
  for (const data::Leak& leak : found.leaks) {
    warn(message(leak.rows, " rows of ", leak.files[1], " repeat a text of ", leak.files[0], ", as line ",
                 static_cast<int64_t>(leak.examples[0].second), " does line ",
                 static_cast<int64_t>(leak.examples[0].first)));
  }
}

/// Reads all splits; errors go to stderr, all of them. Empty when there were some.
std::vector<data::Dataset> read_splits(const config::Config& config) {
  std::vector<data::Dataset> out;
  std::vector<std::string> class_names;
  bool good = true;
  for (const std::string split : {"train", "val", "test"}) {
    try {
      const int64_t rows = split == "train" ? config.trainer.max_train_rows : 0;
      out.push_back(
          data::read_dataset(trainer::data_format(config.task), config.task.data_dir, split, class_names, rows));
      if (split == "train") class_names = out.back().class_names;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      note("error " + error.code() + "  " + error.what());
      good = false;
      // Without the classes of train nothing can be said about the labels of the others.
      if (class_names.empty() && !data::has_class_names(trainer::data_format(config.task), config.task.data_dir)) break;
    }
  }
  if (!good) out.clear();
  return out;
}

Findings look_at(const config::Config& config, const std::vector<data::Dataset>& splits) {
  trainer::Progress progress;
  config::TokenizerConfig uncut = config.tokenizer;
  uncut.max_length = 0;
  const data::Tokenizer tokenizer = trainer::make_tokenizer(uncut);
  Findings found{.class_names = splits[0].class_names, .splits = {}, .leaks = {}, .warnings = {}};
  for (const data::Dataset& split : splits) {
    trainer::Activity activity(progress, "looking at " + split.split, split.rows());
    found.splits.push_back(
        data::survey(split, tokenizer, config.tokenizer.max_length, [&](int64_t done) { activity.done(done); }));
  }
  for (size_t first = 0; first < splits.size(); ++first) {
    for (size_t second = first + 1; second < splits.size(); ++second) {
      data::Leak leak = data::find_leak(splits[first], splits[second]);
      if (leak.rows > 0) found.leaks.push_back(std::move(leak));
    }
  }
  warn_about(config, splits, found);
  return found;
}

std::string split_text(const data::SplitSurvey& split, const std::vector<std::string>& names, int64_t max_length) {
  std::string classes;
  for (size_t i = 0; i < names.size(); ++i) {
    classes += message(classes.empty() ? "" : ", ", names[i], " ", split.per_class[i], " (",
                       percent(split.per_class[i], split.rows), "%)");
  }
  const data::LengthSurvey& lengths = split.lengths;
  return message(
      split.split, "  ", split.rows, " rows  ", split.text_file, "\n  classes     ", classes, "\n  tokens      min ",
      lengths.min, ", median ", lengths.median, ", p95 ", lengths.p95, ", p99 ", lengths.p99, ", max ", lengths.max,
      "\n  cut         ", split.cut, " texts (", percent(split.cut, split.rows), "%) at ", max_length,
      " tokens\n  [UNK]       ", percent(split.unknown, split.pieces), "% of ", split.pieces, " pieces\n  duplicates  ",
      split.duplicates, ", with another label ", split.contradictions, "\n  oddities    no word ", split.empty,
      ", not UTF-8 ", split.ill_formed, ", control characters ", split.controls, ", not NFC ", split.not_nfc, "\n");
}

std::string as_text(const Findings& found, int64_t max_length) {
  std::string out;
  for (const data::SplitSurvey& split : found.splits) out += split_text(split, found.class_names, max_length);
  for (const data::Leak& leak : found.leaks) {
    out += message("in both ", leak.splits[0], " and ", leak.splits[1], "  ", leak.rows, " rows of ", leak.splits[1],
                   ": line");
    for (const data::Leak::Pair& pair : leak.examples) out += message(" ", static_cast<int64_t>(pair.second));
    out += leak.rows > std::ssize(leak.examples) ? " …\n" : "\n";
  }
  return out;
}

Json split_json(const data::SplitSurvey& split, const std::vector<std::string>& names) {
  Json classes = Json::object();
  for (size_t i = 0; i < names.size(); ++i) classes.set(names[i], split.per_class[i]);
  const data::LengthSurvey& lengths = split.lengths;
  return Json::object()
      .set("file", split.text_file)
      .set("rows", split.rows)
      .set("classes", std::move(classes))
      .set("tokens", Json::object()
                         .set("min", lengths.min)
                         .set("median", lengths.median)
                         .set("p95", lengths.p95)
                         .set("p99", lengths.p99)
                         .set("max", lengths.max))
      .set("cut", split.cut)
      .set("pieces", split.pieces)
      .set("unknown", split.unknown)
      .set("duplicates", split.duplicates)
      .set("contradictions", split.contradictions)
      .set("empty", split.empty)
      .set("not_utf8", Json::object().set("rows", split.ill_formed).set("lines", Json(split.ill_lines)))
      .set("control_characters", split.controls)
      .set("not_nfc", split.not_nfc);
}

std::string as_json(const Findings& found) {
  Json splits = Json::object(), leaks = Json::array();
  for (const data::SplitSurvey& split : found.splits) splits.set(split.split, split_json(split, found.class_names));
  for (const data::Leak& leak : found.leaks) {
    Json pairs = Json::array();
    for (const data::Leak::Pair& pair : leak.examples) pairs.push(Json::array().push(pair.first).push(pair.second));
    leaks.push(Json::object()
                   .set("splits", Json::array().push(leak.splits[0]).push(leak.splits[1]))
                   .set("rows", leak.rows)
                   .set("lines", std::move(pairs)));
  }
  return Json::object()
      .set("splits", std::move(splits))
      .set("leaks", std::move(leaks))
      .set("warnings", Json(found.warnings))
      .pretty();
}

void check(const DataOptions& options, int& exit_code) {
  config::Config config = load_config(options.file, options.sets);
  trainer::take_from_pretrained(config);
  const std::vector<data::Dataset> splits = read_splits(config);
  if (splits.empty()) {
    exit_code = static_cast<int>(ErrorKind::data);
    return;
  }
  const Findings found = look_at(config, splits);
  print(options.json ? as_json(found) : as_text(found, config.tokenizer.max_length));
  for (const std::string& warning : found.warnings) note(warning);
  trainer::check_classes(config, found.class_names);
}

}  // namespace

void add_data(Program& program) {
  Verb verb = program.root.add("data", "look at the data of a task");
  Verb sub = verb.add("check", "counts, balance, lengths, duplicates, leaks between splits, bad bytes");
  const auto options = std::make_shared<DataOptions>();
  sub.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(sub, options->sets);
  sub.flag("--json", options->json, "as JSON: {\"splits\", \"leaks\", \"warnings\"}");
  sub.action([options, &program] { check(*options, program.exit_code); });
}

}  // namespace mixtape::tools

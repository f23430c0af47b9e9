#include "tools/report/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "data/file.h"
#include "tools/report/json_value.h"
#include "tools/trainer/run_dir.h"

namespace mixtape::report {
namespace {

constexpr uint64_t most_bytes = uint64_t{1} << 24;  // of a file that is read whole

/// Calls work(line, its number) for each; the last may lack its end.
void for_each_line(const std::string& path, const std::function<void(std::string_view, int64_t)>& work) {
  data::InputFile file(path, ErrorKind::io, "E-IO-READ");
  std::vector<std::byte> buffer(size_t{1} << 16);
  std::string open;  // what has no line end yet
  int64_t number = 0;
  while (const size_t got = file.read_next(buffer)) {
    open.append(reinterpret_cast<const char*>(buffer.data()), got);
    size_t start = 0;
    for (size_t feed = 0; (feed = open.find('\n', start)) != std::string::npos; start = feed + 1)
      work(std::string_view(open).substr(start, feed - start), ++number);
    open.erase(0, start);
  }
  if (!open.empty()) work(open, ++number);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::vector<int64_t>> square(const config::Value* rows, size_t classes) {
  std::vector<std::vector<int64_t>> out;
  if (rows == nullptr || rows->items.size() != classes) return {};
  for (const config::Value& row : rows->items) {
    if (row.items.size() != classes) return {};
    out.emplace_back();
    for (const config::Value& count : row.items) {
      const bool fits = count.number >= 0 && count.number < 0x1p53;  // a count that is none spoils the table
      if (count.kind != config::Kind::number || !fits) return {};
      out.back().push_back(static_cast<int64_t>(count.number));
    }
  }
  return out;
}

Scores scores_of(const config::Value& event) {
  Scores out{.loss = number(event, "loss"),
             .accuracy = number(event, "accuracy"),
             .macro_f1 = number(event, "macro_f1"),
             .macro_over = integer(event, "macro_over"),
             .rows = integer(event, "rows"),
             .classes = {},
             .confusion = {}};
  if (const config::Value* classes = config::find_member(event, "per_class")) {
    for (const config::Value& row : classes->items) {
      out.classes.push_back({.label = text(row, "label"),
                             .precision = number(row, "precision"),
                             .recall = number(row, "recall"),
                             .f1 = number(row, "f1"),
                             .support = integer(row, "support"),
                             .predicted = integer(row, "predicted")});
    }
  }
  out.confusion = square(config::find_member(event, "confusion"), out.classes.size());
  return out;
}

/// Takes the events of a log, one by one.
class LogReader {
 public:
  explicit LogReader(RunRecord& run) : run_(run) {}

  void line(std::string_view line, int64_t line_number) {
    const config::Document document = config::read_json(line);
    const config::Value& event = document.root;
    if (!document.complete || !document.problems.empty() || text(event, "event").empty()) {
      if (damaged_++ == 0) first_damaged_ = line_number;
      return;
    }
    take(text(event, "event"), event);
  }

  void end() const {
    if (damaged_ == 0) return;
    run_.damages.push_back(
        damaged_ == 1 ? message("line ", first_damaged_, " of log.jsonl is cut or damaged, and left out")
                      : message(damaged_, " lines of log.jsonl are cut or damaged, and left out; the first is line ",
                                first_damaged_));
  }

 private:
  void take(const std::string& name, const config::Value& event) {
    const int64_t step = integer(event, "step");
    if (name == "step") return take_step(event);
    if (name == "overflow") return take_skip(event);
    if (name == "eval") {
      run_.evals.push_back({step, text(event, "split"), truth(event, "best"), scores_of(event)});
    } else if (name == "start") {
      run_.steps_planned = integer(event, "steps");
    } else if (name == "nonfinite_loss") {
      if (!run_.skips.empty() && run_.skips.back().step == step) run_.skips.back().culprit = text(event, "tensor");
    } else if (name == "resume") {
      remark(step, message("went on after step ", step), Outcome::unfinished);
    } else if (name == "change") {
      remark(step, message("went on with another ", text(event, "key"), ": ", text(event, "before"), " → ",
                           text(event, "now")));
    } else if (name == "interrupted") {
      remark(step, message("stopped by ", text(event, "signal"), ", saved"), Outcome::interrupted);
    } else if (name == "diverged") {
      remark(step, text(event, "text"), Outcome::diverged);
    } else if (name == "save_failed") {
      remark(step, text(event, "text"));
    } else if (name == "end") {
      run_.outcome = Outcome::finished;
    }
  }

  void take_step(const config::Value& event) {
    const int64_t step = integer(event, "step");
    while (!run_.steps.empty() && run_.steps.back().step >= step) run_.steps.pop_back();
    run_.steps.push_back({.step = step,
                          .updates = integer(event, "updates"),
                          .epoch = integer(event, "epoch"),
                          .loss = number(event, "loss"),
                          .grad_norm = number(event, "grad_norm"),
                          .lr = number(event, "lr"),
                          .loss_scale = number(event, "loss_scale"),
                          .seconds = number(event, "seconds"),
                          .tokens_per_s = number(event, "tokens_per_s"),
                          .lost_updates = number(event, "lost_updates"),
                          .applied = text(event, "outcome") == "applied"});
  }

  void take_skip(const config::Value& event) {
    SkipEvent skip{.step = integer(event, "step"),
                   .loss_scale = number(event, "loss_scale"),
                   .outcome = text(event, "outcome"),
                   .parameters = {},
                   .culprit = {},
                   .retried = truth(event, "retried")};
    if (const config::Value* names = config::find_member(event, "parameters"))
      for (const config::Value& name : names->items) skip.parameters.push_back(name.text);
    run_.skips.push_back(std::move(skip));
  }

  void remark(int64_t step, std::string what) { run_.remarks.push_back({step, std::move(what)}); }
  void remark(int64_t step, std::string what, Outcome outcome) {
    remark(step, std::move(what));
    run_.outcome = outcome;
  }

  RunRecord& run_;
  int64_t damaged_ = 0, first_damaged_ = 0;
};

/// The root of a small JSON file; tells in `damages` why there is none.
std::optional<config::Value> read_object(RunRecord& run, const std::string& name) {
  const std::string path = run.dir + "/" + name;
  config::Document document = config::read_json(data::read_file(path, ErrorKind::io, "E-IO-READ", most_bytes));
  if (document.complete && document.problems.empty() && document.root.kind == config::Kind::object)
    return std::move(document.root);
  run.damages.push_back(name + " is cut or damaged, and left out");
  return std::nullopt;
}

void read_metrics(RunRecord& run) {
  if (!is_there(run.dir + "/metrics.json")) return;
  const std::optional<config::Value> root = read_object(run, "metrics.json");
  if (!root) return;
  Result result;
  if (const config::Value* val = config::find_member(*root, "val")) result.val = scores_of(*val);
  if (const config::Value* test = config::find_member(*root, "test")) result.test = scores_of(*test);
  result.best_step = integer(*root, "best_step");
  if (const config::Value* train = config::find_member(*root, "train")) {
    result.steps = integer(*train, "steps");
    result.updates = integer(*train, "updates");
    result.skipped = integer(*train, "skipped");
    result.tokens = integer(*train, "tokens");
    result.seconds = number(*train, "seconds");
    result.tokens_per_s = number(*train, "tokens_per_s");
    result.peak_bytes = number(*train, "peak_bytes");
    result.peak_rss_bytes = number(*train, "peak_rss_bytes");
    result.stopped_early = truth(*train, "stopped_early");
  }
  run.outcome = Outcome::finished;  // it is the last file of a run
  run.result = std::move(result);
}

/// Nested objects become "data: train_text.txt".
void add_facts(const config::Value& object, const std::string& before, RunRecord& run) {
  for (const config::Member& fact : object.members) {
    const std::string name = before + fact.key;
    if (fact.value.kind == config::Kind::object)
      add_facts(fact.value, name + ": ", run);
    else
      run.machine.emplace_back(name, plain(fact.value));
  }
}

void read_about(RunRecord& run) {
  if (!is_there(run.dir + "/run.json")) {
    run.damages.push_back("run.json is missing");
    return;
  }
  std::optional<config::Value> root = read_object(run, "run.json");
  if (!root) return;
  if (const config::Value* origins = config::find_member(*root, "origins")) {
    run.origins.emplace();
    for (const config::Member& origin : origins->members) (*run.origins)[origin.key] = origin.value.text;
  }
  std::erase_if(root->members, [](const config::Member& m) { return m.key == "origins"; });
  add_facts(*root, "", run);
}

std::string name_of(const std::string& dir) {
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(dir, ignored).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

int64_t RunRecord::last_step() const {
  int64_t last = steps.empty() ? 0 : steps.back().step;
  for (const SkipEvent& skip : skips) last = std::max(last, skip.step);
  return last;
}

int64_t RunRecord::skipped() const {
  return std::count_if(skips.begin(), skips.end(), [](const SkipEvent& skip) { return !skip.retried; });
}

RunRecord read_run(const std::string& dir) {
  RunRecord run;
  run.dir = trainer::RunDir::open(dir).path();
  run.name = name_of(dir);
  if (is_there(run.dir + "/log.jsonl")) {
    LogReader reader(run);
    for_each_line(run.dir + "/log.jsonl",
                  [&](std::string_view line, int64_t line_number) { reader.line(line, line_number); });
    reader.end();
  } else {
    run.damages.push_back("log.jsonl is missing");
  }
  read_metrics(run);
  read_about(run);
  return run;
}

}  // namespace mixtape::report

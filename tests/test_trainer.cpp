// The training loop as a library class: windows, clocks, skips, evaluation, the best model.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/factory.h"
#include "models/pretrained.h"
#include "tests/recorder.h"

namespace mixtape::trainer {
namespace {
using tests::contains;
using tests::error_of;
using tests::error_text;
using tests::events_of;
using tests::read_log;
using tests::TinyRun;

/// Remembers what all its hooks saw.
class Recorder : public tests::WatchedTrainer {
 public:
  using WatchedTrainer::WatchedTrainer;
  std::vector<double> val_losses;
  int64_t checkpoints = 0 /* of best/ */, batches = 0;

 protected:
  void on_batch(const data::Batch&) override { ++batches; }
  void on_eval(const EvalReport& report) override {
    if (report.split == "val") val_losses.push_back(report.metrics.loss);
  }
  void on_checkpoint(const std::string& directory) override { checkpoints += directory.ends_with("/best"); }
};

/// A new run on the tiny data.
template <class T = Recorder>
struct Session : tests::RunOf<T> {
  Session(const TinyRun& tiny, const std::vector<std::string>& sets) : tests::RunOf<T>(tiny, "run", sets) {}
};

const std::vector<std::string> no_dropout = {"model.head_dropout=0", "model.config.hidden_dropout_prob=0",
                                             "model.config.attention_probs_dropout_prob=0"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
}  // namespace

TEST_CASE("trainer: step and update count, lr is the plan's, tokens are real") {
  const TinyRun tiny(22);
  Session<> session(tiny, {"trainer.warmup_ratio=0.25", "data.length_bucketing=false"});
  CHECK(session.trainer.plan().steps == 12);  // 22 rows by 4, twice
  CHECK(session.trainer.plan().text() == "6 batches an epoch, 2 epochs: warm-up 3 of 12 steps, then linear to 0");
  const TrainResult result = session.run();
  const auto& steps = session.trainer.steps;
  REQUIRE(steps.size() == 12);
  int64_t tokens = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const StepReport& step = steps[static_cast<size_t>(i)];
    CHECK(step.step == i + 1);
    CHECK(step.updates == i + 1);
    CHECK(step.epoch == 1 + i / 6);
    CHECK(step.lr == doctest::Approx(0.01 * (i < 3 ? (i + 1) / 3.0 : (12 - i) / 9.0)).epsilon(1e-12));
    CHECK(step.loss_scale == 1);
    CHECK(step.result == optim::StepResult::applied);
    CHECK(std::isfinite(step.grad_norm));
    tokens += step.tokens;
  }
  CHECK(tokens == 2 * read_split(session.config.task, "train", 0, session.tokenizer, session.progress).tokens());
  CHECK(result.tokens == tokens);
  CHECK(result.skipped == 0);
  CHECK(session.trainer.batches == 12);
}

TEST_CASE("trainer: a run and its log do not depend on when it was made (F24)") {
  const TinyRun tiny;
  std::vector<std::string> weights, logs;
  for (int i = 0; i < 2; ++i) {
    Session<> session(tiny, {"amp.dtype=bf16"});
    (void)session.run();
    weights.push_back(session.trainer.weights.back());
    std::string log;
    for (nlohmann::json event : read_log(session.dir.path("log.jsonl"))) {
      for (const char* key : {"seconds", "tokens_per_s", "peak_bytes"}) event.erase(key);
      log += event.dump() + "\n";
    }
    logs.push_back(log);
  }
  CHECK(weights[0] == weights[1]);
  CHECK(logs[0] == logs[1]);
  Session<> other(tiny, {"amp.dtype=bf16", "trainer.seed=43"});
  (void)other.run();
  CHECK(other.trainer.weights.back() != weights[0]);
}

TEST_CASE("bug_B14: one window gives one gradient, however it is cut into micro-batches") {
  const TinyRun tiny(8);
  const auto first = [&](int batch, int accumulation) {
    Session<> session(tiny, with(no_dropout, {"trainer.per_device_train_batch_size=" + std::to_string(batch),
                                              "trainer.gradient_accumulation_steps=" + std::to_string(accumulation),
                                              "trainer.max_steps=1"}));
    (void)session.run();
    CHECK(session.trainer.batches == (8 + batch - 1) / batch);
    return session.trainer.steps.at(0);
  };
  const StepReport whole = first(8, 1);
  for (const auto& cutting : {std::pair(4, 2), std::pair(2, 4), std::pair(3, 3), std::pair(1, 8)}) {
    CAPTURE(cutting.first);
    const StepReport cut = first(cutting.first, cutting.second);
    CHECK(cut.loss == doctest::Approx(whole.loss).epsilon(1e-6));
    CHECK(cut.grad_norm == doctest::Approx(whole.grad_norm).epsilon(1e-6));
    CHECK(cut.tokens == whole.tokens);
  }
}

TEST_CASE("trainer: windows of accumulation end with the epoch") {
  const TinyRun tiny(22);
  Session<> session(tiny, {"trainer.gradient_accumulation_steps=4"});
  (void)session.run();
  CHECK(session.trainer.plan().steps == 4);  // 6 batches: 4 + 2, twice
  REQUIRE(session.trainer.steps.size() == 4);
  CHECK(session.trainer.steps[1].epoch == 1);
  CHECK(session.trainer.steps[2].epoch == 2);
  CHECK(session.trainer.batches == 12);
}

TEST_CASE("trainer: max_steps sets the plan, over as many epochs as it takes") {
  const TinyRun tiny(8);
  Session<> session(tiny, {"trainer.max_steps=5"});
  CHECK(session.trainer.plan().epochs == 3);
  const TrainResult result = session.run();
  CHECK(result.steps == 5);
  CHECK(session.trainer.steps.back().lr == doctest::Approx(0.01 / 4));
  CHECK(session.trainer.val_losses.size() == 3);  // two epochs and the end
}

TEST_CASE("trainer: fp16 that starts far too high skips, halves, and leaves all else as it was") {
  const TinyRun tiny;
  Session<> session(tiny, {"amp.dtype=fp16", "amp.init_scale=16777216", "trainer.num_train_epochs=4"});
  const TrainResult result = session.run();
  const auto& steps = session.trainer.steps;
  int64_t skips = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool skipped = steps[i].result == optim::StepResult::skipped_overflow;
    skips += skipped;
    CHECK(steps[i].updates == steps[i].step - skips);
    if (!skipped || i == 0) continue;
    CHECK_FALSE(steps[i].nonfinite.empty());
    CHECK_FALSE(std::isfinite(steps[i].grad_norm));
    CHECK(std::isfinite(steps[i].loss));  // the logged loss is never scaled
    CHECK(session.trainer.weights[i] == session.trainer.weights[i - 1]);
    CHECK(session.trainer.moments[i] == session.trainer.moments[i - 1]);
    if (i + 1 == steps.size()) continue;
    CHECK(steps[i + 1].loss_scale == steps[i].loss_scale / 2);
    CHECK(steps[i + 1].lr == steps[i].lr);
  }
  CHECK(skips > 0);
  CHECK(skips < std::ssize(steps));
  CHECK(result.skipped == skips);
  const auto log = read_log(session.dir.path("log.jsonl"));
  const auto overflows = events_of(log, "overflow");
  REQUIRE(std::ssize(overflows) == skips);
  CHECK(overflows[0]["loss_scale"] == 16777216);
  CHECK(overflows[0]["parameters"].size() > 0);
  CHECK(events_of(log, "step")[0]["grad_norm"].is_null());
  CHECK(events_of(log, "step")[0]["nonfinite"].contains("grad_norm"));
}

TEST_CASE("bug_B22: a weight that is NaN ends the run with exit 20 and its name") {
  const TinyRun tiny;
  Session<> session(tiny, {"amp.max_consecutive_skips=3"});
  const std::string name = "bert.encoder.layer.1.output.dense.weight";
  for (const NamedTensor& parameter : session.model->parameters()) {
    if (parameter.name == name) assign(parameter.tensor, full(parameter.tensor.shape(), NAN));
  }
  const auto error = error_of([&] { (void)session.run(); });
  REQUIRE(error);
  CHECK(error->exit_code() == 20);
  CHECK(contains(error->what(), name));
  REQUIRE(session.trainer.steps.size() == 3);
  for (const StepReport& step : session.trainer.steps) {
    CHECK(step.result == optim::StepResult::skipped_nonfinite_loss);
    CHECK(step.updates == 0);
    CHECK(step.loss_scale == 1);
  }
  const auto log = read_log(session.dir.path("log.jsonl"));
  CHECK(events_of(log, "overflow").size() == 3);
  CHECK(events_of(log, "nonfinite_loss").size() == 1);
  CHECK(contains(events_of(log, "nonfinite_loss")[0]["tensor"].get<std::string>(), name));
  CHECK(events_of(log, "diverged").size() == 1);
  CHECK(events_of(log, "step")[0]["loss"].is_null());
}

namespace {
/// Poisons the gradients of a few steps.
class Poisoner : public Recorder {
 public:
  using Recorder::Recorder;
  int64_t from = 3, to = 3;
  double value = NAN;

 protected:
  void backward(const Tensor& loss, const data::Batch& batch) override {
    Recorder::backward(loss, batch);
    const int64_t step = std::ssize(steps) + 1;
    if (step < from || step > to) return;
    const Gradient& gradient = optimizer().parameters()[5].tensor.leaf().gradient;
    assign(gradient.raw, full(gradient.raw.shape(), value));
  }
};
}  // namespace

TEST_CASE("trainer: a step with a NaN gradient is skipped in f32 and bf16 too, and the run goes on") {
  const TinyRun tiny;
  for (const std::string dtype : {"off", "bf16"}) {
    Session<Poisoner> session(tiny, {"amp.dtype=" + dtype});
    const TrainResult result = session.run();
    const auto& steps = session.trainer.steps;
    CHECK(result.skipped == 1);
    CHECK(steps[2].result == optim::StepResult::skipped_overflow);
    CHECK(steps[2].nonfinite.size() == 1);
    CHECK(steps[3].result == optim::StepResult::applied);
    CHECK(steps[3].lr == steps[2].lr);
    CHECK(session.trainer.weights[2] == session.trainer.weights[1]);
    CHECK(session.trainer.weights[3] != session.trainer.weights[2]);
  }
}

TEST_CASE("trainer: skips in a row end the run, and what was best stays") {
  const TinyRun tiny;
  Session<Poisoner> session(tiny, {"amp.max_consecutive_skips=2", "amp.dtype=bf16"});
  session.trainer.from = 8;  // after the first epoch of 6 steps
  session.trainer.to = 100;
  const auto error = error_of([&] { (void)session.run(); });
  REQUIRE(error);
  CHECK(error->exit_code() == 20);
  CHECK(session.trainer.steps.size() == 9);
  CHECK(std::filesystem::exists(session.dir.best() + "/model.safetensors"));
  CHECK_FALSE(std::filesystem::exists(session.dir.path("metrics.json")));
}

TEST_CASE("bug_B23: evaluating never changes the trajectory, and two evaluations are equal") {
  const TinyRun tiny;
  std::vector<std::string> last;
  for (const std::string steps : {"1", "1000"}) {
    Session<> session(tiny, {"trainer.eval_strategy=steps", "trainer.eval_steps=" + steps});
    (void)session.run();
    last.push_back(session.trainer.weights.back());
    CHECK(session.trainer.val_losses.size() == (steps == "1" ? 12 : 1));
    const data::EncodedTexts val = read_split(session.config.task, "val", 0, session.tokenizer, session.progress);
    const double once = evaluate(*session.model, val, {}, session.progress).loss;
    CHECK(evaluate(*session.model, val, {}, session.progress).loss == once);
  }
  CHECK(last[0] == last[1]);
}

TEST_CASE("bug_B16: the evaluation loss is a mean over rows, whatever the batch size") {
  const TinyRun tiny(8, 53);
  Session<> session(tiny, {});
  const data::EncodedTexts val = read_split(session.config.task, "val", 0, session.tokenizer, session.progress);
  const Metrics whole = evaluate(*session.model, val, {.batch_size = 1324}, session.progress);
  CHECK(whole.confusion.rows() == 53);
  for (const int64_t size : {1, 7, 32, 64}) {
    const Metrics part = evaluate(*session.model, val, {.batch_size = size}, session.progress);
    CHECK(part.loss == doctest::Approx(whole.loss).epsilon(1e-6));
    CHECK(part.macro_f1 == whole.macro_f1);
  }
}

TEST_CASE("trainer: best/ holds the best weights, and the model is left with them") {
  const TinyRun tiny;
  Session<> session(tiny, {"trainer.num_train_epochs=4", "trainer.metric=loss", "optimizer.learning_rate=0.05"});
  const TrainResult result = session.run();
  const auto& losses = session.trainer.val_losses;
  REQUIRE(losses.size() == 4);
  const size_t best = static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
  CHECK(result.best_step == static_cast<int64_t>(best + 1) * 6);
  CHECK(result.val->loss == losses[best]);
  CHECK(hash_of_tensors(session.model->parameters()) == session.trainer.weights[best * 6 + 5]);
  models::BertClassifier loaded(session.model->config(), 7);
  CHECK(models::load_pretrained(loaded, session.dir.best()).head_loaded);
  CHECK(hash_of_tensors(loaded.parameters()) == session.trainer.weights[best * 6 + 5]);
  const nlohmann::json metrics = nlohmann::json::parse(tests::slurp(session.dir.path("metrics.json")));
  CHECK(metrics["val"]["loss"] == losses[best]);
  CHECK(metrics["best_step"] == result.best_step);
  CHECK(metrics["test"]["rows"] == 10);
  for (const char* key : {"seconds", "tokens_per_s", "peak_bytes", "peak_rss_bytes", "skipped"})
    CHECK(metrics["train"][key].is_number());
}

/// Plays a list of metrics instead of evaluating.
TEST_CASE("trainer: early stopping counts evaluations without a better metric; the earliest wins a tie") {
  const TinyRun tiny;
  // A rate of 0 keeps every evaluation equal: the first stays the best.
  Session<> session(tiny,
                    {"optimizer.learning_rate=0", "trainer.num_train_epochs=9", "trainer.early_stopping_patience=3"});
  const TrainResult result = session.run();
  CHECK(session.trainer.val_losses.size() == 4);
  CHECK(result.best_step == 6);
  CHECK(result.steps == 24);
  CHECK(result.stopped_early);
  CHECK(session.trainer.checkpoints == 1);
}

TEST_CASE("trainer: eval_strategy no evaluates once, at the end") {
  const TinyRun tiny;
  Session<> session(tiny, {"trainer.eval_strategy=no"});
  const TrainResult result = session.run();
  CHECK(session.trainer.val_losses.size() == 1);
  CHECK(result.best_step == 12);
}

namespace {
/// Two losses a step, each swept by itself: what a user overrides backward for.
class TwoLosses : public Recorder {
 public:
  using Recorder::Recorder;

 protected:
  void backward(const Tensor& loss, const data::Batch& batch) override {
    Recorder::backward(loss, batch);
    Recorder::backward(forward(batch), batch);
  }
};
}  // namespace

TEST_CASE("trainer: backward can be replaced") {
  const TinyRun tiny;
  const auto first_step = [&](auto session) {
    (void)session->run();
    return session->trainer.steps.at(0);
  };
  const std::vector<std::string> sets = {"trainer.max_steps=1"};
  const StepReport once = first_step(std::make_unique<Session<>>(tiny, sets));
  const StepReport twice = first_step(std::make_unique<Session<TwoLosses>>(tiny, sets));
  // The second forward has the masks of the first: the same gradient again.
  CHECK(twice.grad_norm == doctest::Approx(2 * once.grad_norm).epsilon(1e-6));
  CHECK(twice.loss == once.loss);
}

TEST_CASE("trainer: a warm-up longer than the run, a policy and sizes that do not fit are told before it starts") {
  const TinyRun tiny;
  const auto code = [&](const std::string& set) {
    const auto error = error_of([&] { Session<> session(tiny, {set}); });
    return error ? error->code() + message(" ", error->exit_code()) : "none";
  };
  CHECK(code("trainer.warmup_steps=13") == "E-SCHEDULE 2");
  CHECK(code("trainer.warmup_steps=12") == "none");
  const std::string longer = error_text([&] { Session<> session(tiny, {"trainer.warmup_steps=13"}); });
  CHECK(contains(longer, "trainer.warmup_steps = 13 (--set"));
  CHECK(contains(longer, "12 steps"));
  CHECK(code("model.config.vocab_size=5") == "E-MODEL-CONFIG 2");
  CHECK_FALSE(std::filesystem::exists(tiny.path("run.bak-1")));
}

}  // namespace mixtape::trainer

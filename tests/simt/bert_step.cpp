// A training step of BERT on the device-on-CPU runner.
#include <cstring>
#include <limits>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/device_module.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/optest_checks.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "tests/simt/device_checks.h"
#include "tests/simt/machine.h"
#include "tests/simt/step_checks.h"
#include "tests/simt/tiny_bert.h"

namespace mixtape::simt_tests {
namespace {

using optest::Checks;
using optest::Numbers;

constexpr int steps = 4, overflowing_step = 2;
constexpr double limit_of_norm = 0.5;
// With an eps this large an update is a smooth function of its gradient: without, AdamW makes ±lr of the noise that
// stands for a gradient of 0.
const optim::AdamWOptions adamw{.lr = 0.02, .beta2 = 0.99, .eps = 0.05, .weight_decay = 0.1};
const optim::SchedulePlan plan{optim::ScheduleKind::linear, 0.02, 8, 2};

models::ClassifierConfig model_config() {
  models::ClassifierConfig config = tiny_bert();
  config.bert.initializer_range = 0.2;
  return config;
}

/// Padded, or the same texts end to end.
data::Batch batch_of(bool packed) {
  data::Batch batch;
  batch.labels = from({1, 0, 1}, {3});
  batch.rows = 3;
  batch.longest = 5;
  if (packed) {
    batch.input_ids = from_ints({2, 5, 9, 3, 8, 2, 7, 3, 2, 3}, {10});
    batch.offsets = from_ints({0, 5, 8, 10}, {4});
    return batch;
  }
  batch.input_ids = from_ints({2, 5, 9, 3, 8, 2, 7, 3, 0, 0, 2, 3, 0, 0, 0}, {3, 5});
  batch.attention_mask = from_bools(
      {true, true, true, true, true, true, true, true, false, false, true, true, false, false, false}, {3, 5});
  return batch;
}

/// All that a run leaves: equal in all orders, near the CPU's.
struct Trace {
  Numbers losses, norms, scales, rates, parameters, gradients;
  std::vector<optim::StepResult> results;
  std::vector<std::string> skipped;
  bool skip_changed_something = false;
  Numbers all() const {
    Numbers every;
    for (const Numbers* part : {&losses, &norms, &scales, &rates, &parameters, &gradients}) {
      every.insert(every.end(), part->begin(), part->end());
    }
    return every;
  }
};

Numbers values_of(const NamedTensors& tensors) {
  Numbers all;
  for (const NamedTensor& entry : tensors) {
    const Numbers values = to_vector(entry.tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

class Training {
 public:
  Training(Device device, DType dtype, bool packed) : device_(device), dtype_(dtype), model_(model_config(), 1) {
    model_.to(device);
    batch_ = batch_of(packed);
    optimizer_ = std::make_unique<optim::AdamW>(model_.parameters(), adamw);
    schedule_ = std::make_unique<optim::Schedule>(*optimizer_, plan);
    amp::ScalerOptions options = amp::unscaled();
    if (dtype == DType::f16) options.scale = {.init = 1024};
    scaler_ = std::make_unique<amp::GradScaler>(options);
  }

  /// The host asks after each step what became of it.
  Trace run() {
    keeps_gradients_ = true;
    for (int step = 0; step < steps; ++step) {
      step == overflowing_step ? skip(step) : this->step(step);
      trace_.scales.push_back(scaler_->scale());
      trace_.rates.push_back(schedule_->lr());
    }
    return end();
  }

  /// The host asks for nothing before the end; returns how often it waited until then.
  int64_t run_blindly(Trace& trace) {
    const int64_t before = waits();
    for (int step = 0; step < steps; ++step) this->step(step, step == overflowing_step);
    const int64_t waited = waits() - before;
    trace_.scales.push_back(scaler_->scale());
    trace_.rates.push_back(schedule_->lr());
    trace_.skipped = scaler_->nonfinite();
    trace = end();
    return waited;
  }

 private:
  Trace end() {
    for (const Tensor& loss : losses_) trace_.losses.push_back(loss.item());
    for (size_t i = 0; i < norms_.size(); ++i) {
      if (i != overflowing_step) trace_.norms.push_back(norms_[i]);  // that one is inf, or NaN
      trace_.results.push_back(outcomes_[i].get());
    }
    for (const NamedTensor& p : model_.parameters()) append(p.tensor, trace_.parameters);
    return trace_;
  }

  static void append(const Tensor& tensor, Numbers& all) {
    const Numbers values = to_vector(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }

  void step(int step, bool overflows = false) {
    const RngGuard rng({.seed = 3, .stream = rng_stream::dropout, .step = static_cast<uint32_t>(step)});
    const data::Batch batch = data::to(batch_, device_);
    for (int micro = 0; micro < 2; ++micro) {
      const Tensor loss = [&] {
        const amp::Autocast guard(dtype_ == DType::f32 ? DType::bf16 : dtype_, dtype_ != DType::f32);
        return model_.loss(batch, 6, true);
      }();
      autograd::backward(scaler_->scale(loss));
      losses_.push_back(loss);
    }
    if (overflows) plant_overflow();
    if (keeps_gradients_ && step == 0) {
      for (const NamedTensor& p : model_.parameters()) append(p.tensor.grad(), trace_.gradients);
    }
    norms_.push_back(optim::clip_grad_norm(*optimizer_, limit_of_norm));
    outcomes_.push_back(scaler_->step(*optimizer_));
    schedule_->advance(outcomes_.back());
    scaler_->update();
  }

  void plant_overflow() {
    const Tensor last = model_.parameters().back().tensor;
    Gradient& gradient = last.leaf().gradient;
    gradient.raw = full(last.shape(), std::numeric_limits<double>::infinity(), DType::f32, last.device());
  }

  void skip(int step) {
    const Numbers before = values_of(model_.parameters()), states = values_of(optimizer_->state());
    this->step(step, true);
    trace_.skip_changed_something =
        before != values_of(model_.parameters()) || states != values_of(optimizer_->state());
  }

  Device device_;
  DType dtype_;
  models::BertClassifier model_;
  data::Batch batch_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::Schedule> schedule_;
  std::unique_ptr<amp::GradScaler> scaler_;
  std::vector<Tensor> losses_;
  std::vector<optim::GradientNorm> norms_;
  std::vector<optim::Outcome> outcomes_;
  bool keeps_gradients_ = false;
  Trace trace_;
};

/// Two passes over the same sums in another order, with as many roundings as there are layers.
Numbers bound_of(const Numbers& values, DType dtype, double reach) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return Numbers(values.size(), reach * eps(dtype) * largest);
}

void compare(Checks& checks, const Trace& device, const Trace& host, DType dtype) {
  checks.expect(device.results == host.results, "a step had another result than on the CPU");
  checks.expect(device.scales == host.scales, "another loss scale than on the CPU");
  checks.expect(device.rates == host.rates, "another learning rate than on the CPU");
  checks.within(device.losses, host.losses, bound_of(host.losses, dtype, 8), 1e300);
  checks.within(device.norms, host.norms, bound_of(host.norms, dtype, 32), 1e300);
  checks.within(device.gradients, host.gradients, bound_of(host.gradients, dtype, 32), 1e300);
  // Each step moves a parameter by at most lr/eps times what its clipped gradient differs by.
  const double gradient = limit_of_norm * 32 * eps(dtype);
  const double moved = steps * adamw.lr * (gradient / adamw.eps + 8 * eps(DType::f32));
  checks.within(device.parameters, host.parameters, Numbers(host.parameters.size(), moved), 1e300);
}

void check_dtype(Checks& checks, DType dtype, bool packed) {
  const Trace host = Training({}, dtype, packed).run();
  const std::vector<optim::StepResult> expected = {optim::StepResult::applied, optim::StepResult::applied,
                                                   optim::StepResult::skipped_overflow, optim::StepResult::applied};
  checks.expect(host.results == expected, "the CPU's steps are not those that the test is about");
  checks.expect(host.scales == (dtype == DType::f16 ? Numbers{1024, 1024, 512, 512} : Numbers{1, 1, 1, 1}),
                "the CPU's scale is not the one that the test is about");
  Numbers first;
  for (int turn = first_long_turn; turn < turns; ++turn) {
    const Turn guard(turn, turn == turns - 1);
    const Trace device = Training(the_device, dtype, packed).run();
    compare(checks, device, host, dtype);
    checks.expect(!device.skip_changed_something, "a skipped step changed a parameter, a moment or a counter");
    if (first.empty()) first = device.all();
    checks.expect(device.all() == first, "another order of blocks and threads gives other bits");
    device_backend(the_device).synchronize();
  }
}

// In deferred mode work runs only where the host waits: a step that needs an answer on its way would show.
void check_blind(Checks& checks, DType dtype) {
  const Deferred guard;
  Trace blind;
  const int64_t waited = Training(the_device, dtype, false).run_blindly(blind);
  checks.expect(waited == 0,
                message("the host waited ", waited, " times within ", static_cast<int64_t>(steps), " steps"));
  const Trace seen = Training(the_device, dtype, false).run();
  checks.expect(blind.parameters == seen.parameters && blind.losses == seen.losses && blind.norms == seen.norms &&
                    blind.results == seen.results,
                "a run whose host asks for nothing gives other bits");
  checks.expect(blind.scales.back() == seen.scales.back() && blind.rates.back() == seen.rates.back(),
                "a run whose host asks for nothing ends with another scale or rate");
  checks.expect(blind.skipped == std::vector<std::string>{"classifier.bias"}, "the skip has another name");
}

}  // namespace

void check_bert_steps(optest::Report& report) {
  Checks checks(report);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool packed : {false, true}) {
      if (packed && dtype != DType::bf16) continue;
      const std::string place = message("steps of BERT, ", name_of(dtype), packed ? ", packed" : "");
      checks.run(place, [&] { check_dtype(checks, dtype, packed); });
      if (!packed) checks.run(place + ", blind", [&] { check_blind(checks, dtype); });
    }
  }
}

}  // namespace mixtape::simt_tests

#include "tools/trainer/lint.h"

#include <cmath>
#include <numeric>

#include "tools/config/fields.h"
#include "tools/trainer/setup.h"

namespace mixtape::trainer {
namespace {

/// Half the distance from `value` to the next number of a dtype with `digits` binary ones behind the point: what is
/// less vanishes when it is added.
double half_step(double value, int digits) { return std::exp2(std::floor(std::log2(value)) - digits - 1); }

class Lint {
 public:
  Lint(const config::Config& config, const Task& task)
      : config_(config), task_(task), precision_(make_precision(config)), plan_(make_plan(config, task.train.rows())) {}

  std::vector<std::string> run() {
    if (config_.amp.dtype == config::AmpDtype::fp16) scaling();
    if (precision_.rule) products();
    probabilities();
    swallowed_updates();
    short_window();
    padding();
    return std::move(found_);
  }

 private:
  void warn(std::string_view code, std::string_view key, const std::string& value, const std::string& why) {
    const std::string place = config_.written(key) ? " (" + config_.origin(key).text() + ")" : " (default)";
    found_.push_back(message("warning ", code, "  ", key, " = ", value, place, ": ", why, ". See docs/lint.md."));
  }

  void scaling() {
    const amp::ScaleOptions& scale = precision_.scaler.scale;
    if (!scale.dynamic && scale.init == 1) {
      warn("W-LINT-NO-SCALE", "amp.loss_scale", "1",
           "gradients below 6e-8 become 0 in fp16, and nothing lifts them above it. Set it to \"dynamic\", or to 1024 "
           "or more");
    }
    if (scale.dynamic && scale.min >= scale.init) {
      warn("W-LINT-IDLE-SCALE", "amp.min_scale", message(scale.min),
           message("the scale begins at ", scale.init, " and can fall no further: an overflow is skipped again and ",
                   "again. Set it to 1"));
    }
    if (config_.trainer.max_grad_norm == 0) {
      warn("W-LINT-NO-CLIP", "trainer.max_grad_norm", "0",
           "in fp16 a gradient just below 65504 is finite and moves every weight as far as it can. Set it to 1");
    }
  }

  void products() {
    for (const std::string op : {"linear", "matmul", "batched_matmul"}) {
      const Rule rule = precision_.rule->of(*find_op(op));
      if (rule == Rule::low) continue;
      const bool overridden = config_.amp.overrides.contains(op);
      warn("W-LINT-F32-PRODUCTS", overridden ? "amp.overrides." + op : "amp.policy",
           overridden ? std::string(name_of(rule)) : config_.amp.policy,
           message(op, " does not run in 16 bits, and products are nearly all of the time: casts are paid for, and ",
                   "nothing is gained. Leave it its own rule, low, or set amp.dtype to \"off\""));
    }
  }

  void probabilities() {
    const auto lifted = config_.amp.overrides.find("binary_cross_entropy");
    if (lifted == config_.amp.overrides.end() || lifted->second == "banned") return;
    warn("W-LINT-PROBABILITIES", "amp.overrides.binary_cross_entropy", lifted->second,
         "a loss of probabilities has gradients that 16 bits cannot hold, whatever the loss itself is computed in. "
         "Leave it banned and use bce_with_logits");
  }

  void swallowed_updates() {
    if (storage_of(config_) != amp::ParameterStorage::low) return;
    const bool bf16 = config_.amp.dtype == config::AmpDtype::bf16;
    const double weight = config_.model.config.initializer_range, least = half_step(weight, bf16 ? 7 : 10);
    const double lr = config_.optimizer.learning_rate;
    if (config_.optimizer.type != config::OptimizerType::adamw || lr >= least) return;
    warn("W-LINT-SWALLOWED", "optimizer.learning_rate", message(lr),
         message("weights are stored in ", bf16 ? "bf16" : "fp16", ", where a weight of ", weight,
                 " does not feel an update below ", least, ", and AdamW's are about as large as the rate. Set ",
                 "amp.parameter_storage to f32_with_low_copy", bf16 ? ", bf16_stochastic or bf16_kahan" : ""));
  }

  void short_window() {
    const int64_t window = config_.trainer.gradient_accumulation_steps;
    const int64_t rest = plan_.batches_per_epoch % window;
    if (rest == 0) return;
    warn(
        "W-LINT-SHORT-WINDOW", "trainer.gradient_accumulation_steps", message(window),
        message(plan_.batches_per_epoch, " batches an epoch leave ", rest, " for the last update of each, which is as ",
                "large as the others. Choose a divisor, or a batch size that gives one"));
  }

  void padding() {
    if (config_.data.padding != config::Padding::max_length) return;
    const double places = static_cast<double>(task_.train.rows() * config_.tokenizer.max_length);
    const double share = static_cast<double>(task_.train.tokens()) / places;
    if (share >= 0.5) return;
    warn("W-LINT-PADDING", "data.padding", "\"max_length\"",
         message(std::lround(100 * (1 - share)), " % of all places would hold padding, and each costs what a token ",
                 "costs. Set it to \"packed\" or \"longest\""));
  }

  const config::Config& config_;
  const Task& task_;
  const Precision precision_;
  const RunPlan plan_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> lint(const config::Config& config, const Task& task) { return Lint(config, task).run(); }

}  // namespace mixtape::trainer

#include "tools/trainer/lint.h"

#include <cmath>
#include <numeric>

#include "tools/config/fields.h"
#include "tools/trainer/setup.h"

namespace mixtape::trainer {
namespace {

/// Half the distance from `value` to the nearest other number of a dtype with `digits` binary ones behind the point:
/// what is less vanishes when it is added or taken away. Below a power of two the numbers lie twice as close.
double half_step(double value, int digits) { return std::exp2(std::ceil(std::log2(value)) - 1 - digits - 1); }

/// Parameters that begin about as large.
struct SizedWeights {
  const char* name;
  double size;
  double count;          ///< in the layers of the encoder
  bool decays;           ///< optimizer.weight_decay acts on them
  double least = 0;      ///< updates below it are swallowed
  bool swallows = true;  ///< and it is known before the run that nearly all are
  double movers = 0;     ///< of `count`, at most, in a step
};

/// Scales below this lift too few gradients, static ones above that push too many beyond 65504: 2^-24 is fp16's end at
/// one side, and gradients of a mean loss are seldom above 65504 / 2^24 = 0.004.
constexpr double least_scale = 128, most_static_scale = 0x1p24;

class Lint {
 public:
  Lint(const config::Config& config, const Task& task)
      : config_(config), task_(task), precision_(make_precision(config)), plan_(make_plan(config, task.train.rows())) {}

  std::vector<LintWarning> run() {
    if (config_.amp.dtype == config::AmpDtype::fp16 && precision_.rule) scaling();
    if (precision_.rule) products();
    if (!precision_.rule && config_.amp.dtype != config::AmpDtype::off) no_guard();
    probabilities();
    swallowed_updates();
    short_window();
    padding();
    return std::move(found_);
  }

 private:
  void warn(std::string_view code, std::string key, const std::string& value, const std::string& cause,
            const std::string& remedy) {
    const bool one_of_overrides = key.starts_with("amp.overrides.") && !config_.written(key);
    const std::string_view written = one_of_overrides ? "amp.overrides" : std::string_view(key);
    std::string origin = config_.written(written) ? config_.origin(written).text() : "default";
    if (origin == "default" && key == "amp.loss_scale" && !precision_.scaler.scale.dynamic)
      origin = "amp.policy " + config_.amp.policy;
    found_.push_back({std::string(code), std::move(key), value, std::move(origin), cause, remedy});
  }

  void scaling() {
    const amp::ScaleOptions& scale = precision_.scaler.scale;
    const double top = scale.dynamic ? scale.max : scale.init;
    if (top < least_scale) {
      warn("W-LINT-NO-SCALE", scale.dynamic ? "amp.max_scale" : "amp.loss_scale", message(top),
           message("gradients below ", 0x1p-25 / top, " become 0 in fp16, and nothing lifts them above it"),
           scale.dynamic ? "Set it to 16777216" : "Set it to \"dynamic\", or to 1024 or more");
    }
    if (!scale.dynamic && scale.init > most_static_scale) {
      warn(
          "W-LINT-IDLE-SCALE", "amp.loss_scale", message(scale.init),
          message("gradients of ", 65504 / scale.init, " and more overflow, and nothing lowers the scale: their steps ",
                  "are skipped, one after the other"),
          "Set it to \"dynamic\"");
    }
    if (scale.dynamic && scale.min >= scale.init) {
      const bool high_floor = scale.min > 1;
      warn("W-LINT-IDLE-SCALE", high_floor ? "amp.min_scale" : "amp.init_scale",
           message(high_floor ? scale.min : scale.init),
           message("the scale begins at ", scale.init,
                   " and can fall no further: an overflow is skipped again and again"),
           high_floor ? "Set it to 1" : "Set it to 65536");
    }
    const int64_t patience = precision_.scaler.max_consecutive_skips;
    if (scale.dynamic && patience > 0 && scale.hysteresis >= patience) {
      warn("W-LINT-IDLE-SCALE", "amp.hysteresis", message(scale.hysteresis),
           message("the scale lets ", scale.hysteresis - 1, " overflows pass, and ", patience,
                   " in a row end the run (amp.max_consecutive_skips): it never falls in time"),
           "Set it to 2");
    }
    if (config_.trainer.max_grad_norm == 0) {
      warn("W-LINT-NO-CLIP", "trainer.max_grad_norm", "0",
           "in fp16 a gradient just below 65504 is finite and moves every weight as far as it can", "Set it to 1");
    }
  }

  void no_guard() {
    warn("W-LINT-F32-PRODUCTS", "amp.policy", config_.amp.policy,
         "it keeps everything in f32, whatever amp.dtype says: nothing runs in 16 bits, and nothing is gained",
         "Take native, or set amp.dtype to \"off\"");
  }

  void products() {
    for (const std::string op : {"linear", "matmul", "batched_matmul"}) {
      const Rule rule = precision_.rule->of(*find_op(op));
      if (rule == Rule::low) continue;
      const bool overridden = config_.amp.overrides.contains(op);
      warn("W-LINT-F32-PRODUCTS", overridden ? "amp.overrides." + op : "amp.policy",
           overridden ? std::string(name_of(rule)) : config_.amp.policy,
           op + " does not run in 16 bits, and products are nearly all of the time: casts are paid for, and nothing is "
                "gained",
           "Leave it its own rule, low, or set amp.dtype to \"off\"");
    }
  }

  void probabilities() {
    const auto lifted = config_.amp.overrides.find("binary_cross_entropy");
    const bool overridden = lifted != config_.amp.overrides.end();
    const bool own_file = config_.amp.policy.ends_with(".json");  // presets say what the systems do that they copy
    if (!precision_.rule || (!overridden && !own_file)) return;
    const Rule rule = precision_.rule->of(*find_op("binary_cross_entropy"));
    if (rule == Rule::banned) return;
    warn("W-LINT-PROBABILITIES", overridden ? "amp.overrides.binary_cross_entropy" : "amp.policy",
         overridden ? std::string(name_of(rule)) : config_.amp.policy,
         "a loss of probabilities has gradients that 16 bits cannot hold, whatever the loss itself is computed in",
         "Leave it banned and use bce_with_logits");
  }

  /// Matrices, which begin at initializer_range, and γ of the norms, which are 1 where 16 bits hold them too.
  std::vector<SizedWeights> weights_of_16_bits() const {
    const config::EncoderConfig& bert = config_.model.config;
    const auto layers = static_cast<double>(bert.num_hidden_layers), width = static_cast<double>(bert.hidden_size),
               inner = static_cast<double>(bert.intermediate_size);
    std::vector<SizedWeights> out = {
        {"weight", bert.initializer_range, layers * width * (4 * width + 2 * inner), true}};
    if (!keeps_norms_f32(config_)) out.push_back({"norm weight", 1, (2 * layers + 1) * width, false});
    for (SizedWeights& kind : out)
      kind.least = half_step(kind.size, config_.amp.dtype == config::AmpDtype::bf16 ? 7 : 10);
    return out;
  }

  /// An update of AdamW is about as large as the rate. One of SGD is the rate times a gradient, which nobody knows
  /// before the run: but the squares of all gradients together are at most the square of the norm that they are clipped
  /// to, so that only so many of them can be large. Without clipping nothing is known.
  void find_swallowed(SizedWeights& kind) const {
    const double lr = config_.optimizer.learning_rate;
    if (config_.optimizer.type == config::OptimizerType::adamw) {
      kind.swallows = lr < kind.least;
      return;
    }
    const double clip = config_.trainer.max_grad_norm;
    const double missing = kind.least - (kind.decays ? lr * config_.optimizer.weight_decay * kind.size : 0);
    kind.movers = missing > 0 ? std::floor(std::pow(lr * clip / missing, 2)) : kind.count;
    kind.swallows = clip > 0 && kind.movers < kind.count / 2;
  }

  void swallowed_updates() {
    if (config_.amp.dtype == config::AmpDtype::off || storage_of(config_) != amp::ParameterStorage::low) return;
    std::vector<SizedWeights> kinds = weights_of_16_bits();
    for (SizedWeights& kind : kinds) find_swallowed(kind);
    std::erase_if(kinds, [](const SizedWeights& kind) { return !kind.swallows; });
    if (kinds.empty()) return;
    const bool bf16 = config_.amp.dtype == config::AmpDtype::bf16;
    const double lr = config_.optimizer.learning_rate;
    std::string cause = message("weights are stored in ", bf16 ? "bf16" : "fp16", ", where ");
    std::string movers;
    for (const SizedWeights& kind : kinds) {
      const bool first = &kind == &kinds.front();
      cause += message(first ? "a " : " and a ", kind.name, " of ", kind.size, " does not feel an update below ",
                       kind.least);
      movers += message(first ? "" : " and ", static_cast<int64_t>(kind.movers), " of the ",
                        static_cast<int64_t>(kind.count), " ", kind.name, "s");
    }
    cause += config_.optimizer.type == config::OptimizerType::adamw
                 ? ", and AdamW's are about as large as the rate"
                 : message(", and gradients clipped to a norm of ", config_.trainer.max_grad_norm, " let at most ",
                           movers, " of the layers move in a step");
    warn("W-LINT-SWALLOWED", "optimizer.learning_rate", message(lr), cause,
         message("Set amp.parameter_storage to f32_with_low_copy", bf16 ? ", bf16_stochastic or bf16_kahan" : "",
                 kinds.front().size == 1 ? ", or take a policy with keep_norms_f32" : ""));
  }

  void short_window() {
    const int64_t window = config_.trainer.gradient_accumulation_steps;
    const int64_t rest = plan_.batches_per_epoch % window;
    if (rest == 0) return;
    warn("W-LINT-SHORT-WINDOW", "trainer.gradient_accumulation_steps", message(window),
         message(plan_.batches_per_epoch, " batches an epoch leave ", rest,
                 " for the last update of each, which is as ", "large as the others"),
         "Choose a divisor, or a batch size that gives one");
  }

  void padding() {
    if (config_.data.padding != config::Padding::max_length) return;
    const double places = static_cast<double>(task_.train.rows() * config_.tokenizer.max_length);
    const double share = static_cast<double>(task_.train.tokens()) / places;
    if (share >= 0.5) return;
    warn("W-LINT-PADDING", "data.padding", "\"max_length\"",
         message(std::lround(100 * (1 - share)), " % of all places would hold padding, and each costs what a token ",
                 "costs"),
         "Set it to \"packed\" or \"longest\"");
  }

  const config::Config& config_;
  const Task& task_;
  const Precision precision_;
  const RunPlan plan_;
  std::vector<LintWarning> found_;
};

}  // namespace

std::string LintWarning::page() const {
  std::string anchor = code;
  for (char& c : anchor) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return "docs/lint.md#" + anchor;
}

std::string LintWarning::text() const {
  return message("warning ", code, "  ", key, " = ", value, " (", origin, "): ", cause, ". ", remedy, ". See ", page(),
                 ".");
}

std::vector<LintWarning> lint(const config::Config& config, const Task& task) { return Lint(config, task).run(); }

}  // namespace mixtape::trainer

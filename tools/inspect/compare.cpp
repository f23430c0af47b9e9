#include "tools/inspect/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/context.h"
#include "core/error.h"
#include "core/factory.h"

namespace mixtape::inspect {
namespace {

std::string dtype_word(const std::string& name) { return name == "fp32" ? "off" : name; }

config::Config config_in(const std::string& file, std::vector<std::string> sets, const std::string& dtype) {
  sets.push_back("amp.dtype=" + dtype_word(dtype));
  return config::load_config(file, sets);
}

/// Gradients of all parameters, in full.
struct Gradients {
  std::vector<std::vector<double>> values;
  void read(const models::BertClassifier& model) {
    values.clear();
    for (const auto& [name, tensor] : model.parameters()) {
      const Gradient& gradient = tensor.leaf().gradient;
      values.push_back(gradient ? to_vector(all_rows(gradient, tensor.shape())) : std::vector<double>());
    }
  }
};

struct Angle {
  double dot = 0, a = 0, b = 0;
  void add(const std::vector<double>& x, const std::vector<double>& y) {
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      dot += x[i] * y[i];
      a += x[i] * x[i];
      b += y[i] * y[i];
    }
  }
  double cosine() const {
    const double cosine = dot / (std::sqrt(a) * std::sqrt(b));
    return std::isfinite(cosine) ? cosine : std::numeric_limits<double>::quiet_NaN();
  }
};

/// The last float output of each layer.
class LayerOutputs {
 public:
  LayerOutputs() : observer_{.on_call = &LayerOutputs::on_call, .self = this} {}
  LayerOutputs(const LayerOutputs&) = delete;
  LayerOutputs& operator=(const LayerOutputs&) = delete;
  Observer& observer() { return observer_; }
  static void on_call(void* self, const CallEvent& event) {
    if (!event.moved || !is_float(event.out[0].dtype()) || event.op.info->name == "cast") return;
    auto& all = *static_cast<LayerOutputs*>(self);
    all.outputs[layer_of(scope_path(context().scope.get()))] = to_vector(event.out[0]);
  }
  std::map<std::string, std::vector<double>> outputs;

 private:
  Observer observer_;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double off = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    off += (b[i] - a[i]) * (b[i] - a[i]);
    size += a[i] * a[i];
  }
  const double ratio = size > 0 ? std::sqrt(off / size) : std::sqrt(off);
  return std::isnan(ratio) ? std::numeric_limits<double>::quiet_NaN() : ratio;  // printed without a sign
}

/// Compares each call of b with its exact result until one is outside its bound, and remembers the activations.
class OpCheck {
 public:
  explicit OpCheck(Comparison& out)
      : out_(out), observer_{.on_call = &OpCheck::on_call, .on_backward = &OpCheck::on_backward, .self = this} {}
  OpCheck(const OpCheck&) = delete;
  OpCheck& operator=(const OpCheck&) = delete;

  Observer& observer(int64_t step, bool checks, LayerOutputs* outputs) {
    step_ = step;
    checks_ = checks;
    outputs_ = outputs;
    return observer_;
  }

 private:
  static void on_call(void* self, const CallEvent& event) {
    auto& check = *static_cast<OpCheck*>(self);
    if (check.outputs_ != nullptr) LayerOutputs::on_call(check.outputs_, event);
    if (check.wants()) check.note(error_of(event), check.out_.forward_calls);
  }
  static void on_backward(void* self, const BackwardEvent& event) {
    auto& check = *static_cast<OpCheck*>(self);
    if (check.wants()) check.note(error_of(event), check.out_.backward_calls);
  }
  bool wants() const { return checks_ && !out_.outside; }
  void note(const std::optional<OpError>& found, int64_t& calls) {
    if (!found) return;
    ++calls;
    if (!out_.closest || found->of_bound > out_.closest->of_bound) out_.closest = found;
    if (found->beyond > 0 && !out_.overflow) {
      out_.overflow = found;
      out_.overflow_step = step_;
    }
    if (!found->outside()) return;
    out_.outside = found;
    out_.outside_step = step_;
  }

  Comparison& out_;
  Observer observer_;
  int64_t step_ = 0;
  bool checks_ = false;
  LayerOutputs* outputs_ = nullptr;
};

std::vector<std::string> layers_of(const models::BertClassifier& model) {
  std::vector<std::string> layers;
  for (const auto& [name, tensor] : model.parameters()) {
    const std::string layer = layer_of(name);
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
  }
  return layers;
}

void measure_angles(CompareStep& step, const Comparison& out, const NamedTensors& parameters, const Gradients& a,
                    const Gradients& b) {
  std::map<std::string, Angle> angles;
  Angle all;
  for (size_t i = 0; i < parameters.size(); ++i) {
    angles[layer_of(parameters[i].name)].add(a.values[i], b.values[i]);
    all.add(a.values[i], b.values[i]);
  }
  step.cosine = all.cosine();
  for (const std::string& layer : out.layers) step.cosines.push_back(angles[layer].cosine());
}

/// One step of either run.
void take_step(Replay& replay, Observer* observer, Gradients& gradients, double& loss, std::string& outcome) {
  replay.take({.observer = observer,
               .on_batch = {},
               .on_gradients = [&](const trainer::StepReport&) { gradients.read(replay.model()); },
               .on_step =
                   [&](const trainer::StepReport& report) {
                     loss = std::isnan(report.loss) ? std::numeric_limits<double>::quiet_NaN() : report.loss;
                     outcome = optim::name_of(report.result);
                   }});
}

void note_accumulated(Comparison& out, const LayerOutputs& a, const LayerOutputs& b, bool first) {
  for (const std::string& layer : out.layers) {
    const auto of_a = a.outputs.find(layer), of_b = b.outputs.find(layer);
    if (of_a == a.outputs.end() || of_b == b.outputs.end()) continue;
    const double off = distance(of_a->second, of_b->second);
    if (first) out.accumulated.push_back({layer, off, off});
    for (Accumulated& known : out.accumulated) {
      if (known.layer == layer) known.last = off;
    }
  }
}

}  // namespace

std::string layer_of(const std::string& path) {
  std::string rest = path.starts_with("bert.") ? path.substr(5) : path;
  size_t end = rest.find('.');
  if (rest.starts_with("encoder.layer.")) end = rest.find('.', std::string_view("encoder.layer.").size());
  return rest.substr(0, end);
}

Comparison compare(const std::string& file, const std::vector<std::string>& sets, const CompareOptions& options,
                   trainer::Progress& progress) {
  Replay a = Replay::of_config(config_in(file, sets, options.a), progress);
  Replay b = Replay::of_config(config_in(file, sets, options.b), progress);
  if (options.steps > a.plan().steps) {
    fail(ErrorKind::config, "E-REPLAY-STEP",
         message("--steps ", options.steps, ": the run of ", file, " has only ", a.plan().steps));
  }
  Comparison out{.a = options.a, .b = options.b, .policy = b.config().amp.policy, .layers = layers_of(a.model())};
  OpCheck check(out);
  ContextGuard modes;
  if (options.composed) context().fused = false;
  trainer::Activity activity(progress, "comparing step", options.steps);
  for (int64_t k = 1; k <= options.steps; ++k) {
    const bool ends = k == 1 || k == options.steps;
    const bool checks = options.check_every > 0 && (k - 1) % options.check_every == 0;
    LayerOutputs of_a, of_b;
    Gradients grad_a, grad_b;
    CompareStep step{.step = k};
    take_step(a, ends ? &of_a.observer() : nullptr, grad_a, step.loss_a, step.outcome_a);
    take_step(b, &check.observer(k, checks, ends ? &of_b : nullptr), grad_b, step.loss_b, step.outcome_b);
    measure_angles(step, out, a.model().parameters(), grad_a, grad_b);
    if (ends) note_accumulated(out, of_a, of_b, k == 1);
    out.steps.push_back(std::move(step));
    activity.done(k);
  }
  return out;
}

}  // namespace mixtape::inspect

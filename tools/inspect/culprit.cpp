#include "tools/inspect/culprit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "autograd/node.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "tools/inspect/exact.h"

namespace mixtape::inspect {
namespace {

using autograd::Edge;
using autograd::Node;

kernels::Census census_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous() ? tensor : copy_of(tensor);
  return kernels::census(dense.view());
}

bool is_finite(const Tensor& tensor) {
  return !tensor || !is_float(tensor.dtype()) || tensor.numel() == 0 || census_of(tensor).finite;
}

/// The texts that the rows along the first axis belong to; empty where they belong to none.
std::vector<int64_t> texts_of(const Tensor& tensor, const data::Batch& batch) {
  if (tensor.rank() == 0) return {};
  const int64_t rows = tensor.size(0);
  std::vector<int64_t> texts;
  if (batch.offsets && rows == batch.input_ids.numel() && rows != batch.rows) {
    const std::vector<double> offsets = to_vector(batch.offsets);
    for (size_t text = 0; text + 1 < offsets.size(); ++text) {
      const auto length = static_cast<size_t>(offsets[text + 1] - offsets[text]);
      texts.insert(texts.end(), length, batch.row_numbers[text]);
    }
    return texts;
  }
  if (batch.rows == 0 || rows % batch.rows != 0) return {};
  const int64_t each = rows / batch.rows;  // 1, or the places of a padded text
  if (each != 1 && (batch.offsets || each != batch.longest)) return {};
  for (int64_t i = 0; i < rows; ++i) texts.push_back(batch.row_numbers[static_cast<size_t>(i / each)]);
  return texts;
}

std::vector<SampleShare> shares_of(const std::vector<double>& values, const std::vector<int64_t>& texts) {
  std::map<int64_t, int64_t> counts;
  int64_t all = 0;
  const size_t width = texts.empty() ? 1 : values.size() / texts.size();
  for (size_t i = 0; i < values.size() && !texts.empty(); ++i) {
    if (std::isfinite(values[i])) continue;
    ++counts[texts[i / width]];
    ++all;
  }
  std::vector<SampleShare> shares;
  for (const auto& [row, count] : counts) {
    shares.push_back({row, count, static_cast<double>(count) / static_cast<double>(all)});
  }
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return shares;
}

/// Counts what is not finite, and takes the largest true value of such an element; `exact` may be absent.
void count(Culprit& culprit, const Tensor& tensor, const Tensor& exact, const data::Batch& batch) {
  const std::vector<double> values = to_vector(tensor);
  const bool known = exact && exact.shape() == tensor.shape();
  const std::vector<double> truth = known ? to_vector(exact) : std::vector<double>();
  culprit.dtype = tensor.dtype();
  culprit.elements = tensor.numel();
  double largest = 0;
  bool undefined = false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    ++(std::isnan(values[i]) ? culprit.nan : culprit.inf);
    if (!known) continue;
    undefined = undefined || std::isnan(truth[i]);
    largest = std::max(largest, std::abs(truth[i]));
  }
  if (known) culprit.true_value = undefined ? std::numeric_limits<double>::quiet_NaN() : largest;
  if (culprit.kind != TensorKind::weight_gradient) culprit.samples = shares_of(values, texts_of(tensor, batch));
}

/// The leaf behind an edge, through the cast that stage 1 put there.
std::string leaf_behind(const Edge& edge) {
  if (edge.leaf) return edge.leaf.leaf().name;
  const bool casts = edge.node && edge.node->op->info->name == "cast" && !edge.node->edges.empty();
  return casts && edge.node->edges[0].leaf ? edge.node->edges[0].leaf.leaf().name : "";
}

/// The op's own parameter that comes first; its weight, where it has one.
std::string parameter_of(const Tensors& given) {
  for (const Tensor& tensor : given) {
    if (tensor && tensor.is_leaf() && !tensor.leaf().name.empty()) return tensor.leaf().name;
  }
  return "";
}
std::string parameter_of(const Node& node) {
  for (const Edge& edge : node.edges) {
    if (std::string name = leaf_behind(edge); !name.empty()) return name;
  }
  return "";
}

/// Waits for the first tensor that is not finite, forward and then backward.
class Walk {
 public:
  explicit Walk(const models::BertClassifier& model)
      : model_(model), observer_{.on_call = &Walk::on_call, .on_backward = &Walk::on_backward, .self = this} {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  Watch watch() {
    const auto next_batch = [this](const data::Batch& batch) {
      batch_ = batch;
      ++micro_batch_;
      arrivals_.clear();
    };
    return {.observer = &observer_, .on_batch = next_batch, .on_gradients = [this](const trainer::StepReport&) {
              look_at_leaves();
            }};
  }
  std::optional<Culprit> found;
  const OpSchema* op = nullptr;  // that gave it

 private:
  Culprit begin(TensorKind kind, const OpSchema& schema, std::string scope) {
    op = &schema;
    Culprit culprit;
    culprit.kind = kind;
    culprit.op = schema.info->name;
    culprit.scope = std::move(scope);
    culprit.micro_batch = micro_batch_ - 1;
    return culprit;
  }

  static void on_call(void* self, const CallEvent& event) {
    Walk& walk = *static_cast<Walk*>(self);
    if (walk.found) return;
    for (int i = 0; i < event.out.size(); ++i) {
      if (is_finite(event.out[i])) continue;
      Culprit culprit = walk.begin(TensorKind::activation, event.op, scope_path(context().scope.get()));
      culprit.tensor = "output";
      culprit.parameter = parameter_of(event.given);
      const Tensors exact = exact_outputs(event);
      count(culprit, event.out[i], i < exact.size() ? exact[i] : Tensor(), walk.batch_);
      walk.found = std::move(culprit);
      return;
    }
  }

  static void on_backward(void* self, const BackwardEvent& event) {
    Walk& walk = *static_cast<Walk*>(self);
    if (walk.found) return;
    if (walk.look_at_incoming(event) || walk.look_at_outgoing(event)) return walk.arrivals_.clear();
    walk.arrivals_.erase(&event.node);
    for (int i = 0; i < event.outgoing.size(); ++i) {
      const Edge& edge = event.node.edges[i];
      if (edge.node && event.outgoing[i]) walk.arrivals_[edge.node.get()].push_back({edge.output, event.outgoing[i]});
    }
  }

  /// What came in is a sum of finite gradients, or one of them in another dtype.
  bool look_at_incoming(const BackwardEvent& event) {
    for (int i = 0; i < event.incoming.size(); ++i) {
      if (is_finite(event.incoming[i])) continue;
      Culprit culprit = begin(TensorKind::activation_gradient, event.op, event.scope);
      culprit.tensor = message("gradient of the output of ", event.op.info->name);
      Tensor exact;
      int addends = 0;
      for (const auto& [output, gradient] : arrivals_[&event.node]) {
        if (output != i) continue;
        const Tensor term = copy_of(gradient, DType::f64);
        if (exact) kernels::add_scaled(exact.view(), 1.0, term.view(), 1.0, exact.view());
        if (!exact) exact = term;
        ++addends;
      }
      culprit.op = addends > 1 ? "gradient sum" : "cast";
      count(culprit, event.incoming[i], exact, batch_);
      found = std::move(culprit);
      return true;
    }
    return false;
  }

  bool look_at_outgoing(const BackwardEvent& event) {
    for (int i = 0; i < event.outgoing.size(); ++i) {
      if (is_finite(event.outgoing[i])) continue;
      const Input& input = event.op.info->inputs[i];
      const std::string leaf = leaf_behind(event.node.edges[i]);
      const bool weight = input.wide_grad || input.role == Role::parameter || event.node.edges[i].leaf;
      Culprit culprit =
          begin(weight ? TensorKind::weight_gradient : TensorKind::activation_gradient, event.op, event.scope);
      culprit.op += ".backward";
      culprit.tensor = message("gradient of ", weight && !leaf.empty() ? leaf : std::string(input.name));
      culprit.parameter = parameter_of(event.node);
      const Tensors exact = exact_gradients(event);
      count(culprit, event.outgoing[i], i < exact.size() ? exact[i] : Tensor(), batch_);
      found = std::move(culprit);
      return true;
    }
    return false;
  }

  /// Each node's part was finite, their sum is not; or it is, and without the scale it is not.
  void look_at_leaves() {
    for (const auto& [name, tensor] : model_.parameters()) {
      const Gradient& gradient = tensor.leaf().gradient;
      if (found || !gradient) continue;
      const kernels::Census census = census_of(gradient.raw);
      const double unscaled = census.max_abs * gradient.multiplier;
      if (census.finite && std::isfinite(static_cast<float>(unscaled))) continue;
      Culprit culprit;
      culprit.kind = TensorKind::weight_gradient;
      culprit.op = census.finite ? "unscaling" : "gradient sum";
      culprit.scope = name.substr(0, std::min(name.rfind('.'), name.size()));
      culprit.tensor = "gradient of " + name;
      culprit.parameter = name;
      culprit.micro_batch = micro_batch_ - 1;
      const Tensor stored = empty(gradient.raw.shape(), gradient.raw.dtype());
      kernels::scale(gradient.raw.view(), census.finite ? gradient.multiplier : 1.0, stored.view());
      count(culprit, stored, {}, batch_);
      if (census.finite) culprit.true_value = unscaled;
      found = std::move(culprit);
    }
  }

  const models::BertClassifier& model_;
  Observer observer_;
  data::Batch batch_;
  int64_t micro_batch_ = 0;
  std::map<const Node*, std::vector<std::pair<int, Tensor>>> arrivals_;  // gradients on their way
};

/// The largest activation gradient of 16 bits, as a part of what its format holds.
struct Loudest {
  double part = 0;
  static void on_backward(void* self, const BackwardEvent& event) {
    auto& loudest = *static_cast<Loudest*>(self);
    for (const Tensors* tensors : {&event.incoming, &event.outgoing}) {
      for (const Tensor& tensor : *tensors) {
        if (!tensor || !is_low(tensor.dtype()) || tensor.numel() == 0) continue;
        loudest.part = std::max(loudest.part, census_of(tensor).max_abs / -lowest(tensor.dtype()));
      }
    }
  }
};

}  // namespace

std::string_view name_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::parameter: return "parameter";
    case TensorKind::activation: return "activation";
    case TensorKind::activation_gradient: return "activation gradient";
    case TensorKind::weight_gradient: return "weight gradient";
  }
  return "";
}

Search find_culprit(Replay& replay, double scale) {
  Walk walk(replay.model());
  Search search{.report = replay.look(walk.watch(), scale), .culprit = {}};
  search.culprit = walk.found;
  if (!search.culprit || walk.op == nullptr || walk.op->info->absorbs.empty()) return search;
  Walk inside(replay.model());
  {
    const ComposedGuard composed(std::vector<const OpSchema*>{walk.op});
    (void)replay.look(inside.watch(), scale);
  }
  // The ops by themselves round a little otherwise: what they show counts where they fail in the same place.
  if (inside.found && inside.found->scope.starts_with(search.culprit->scope)) {
    search.culprit = inside.found;
    search.culprit->fused_in = walk.op->info->name;
  }
  return search;
}

Trial try_scale(Replay& replay, double scale) {
  Loudest loudest;
  Observer observer{.on_backward = &Loudest::on_backward, .self = &loudest};
  const trainer::StepReport report = replay.look({.observer = &observer}, scale);
  return {.fits = report.result == optim::StepResult::applied, .headroom = 1 / loudest.part};
}

std::vector<std::string> nonfinite_parameters(const models::BertClassifier& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.parameters()) {
    if (!is_finite(tensor)) names.push_back(name);
  }
  return names;
}

}  // namespace mixtape::inspect

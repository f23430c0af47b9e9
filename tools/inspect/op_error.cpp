#include "tools/inspect/op_error.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "autograd/cast.h"
#include "autograd/node.h"
#include "core/context.h"
#include "core/factory.h"
#include "tools/inspect/exact.h"

namespace mixtape::inspect {
namespace {

constexpr double kDelta = 0x1p-20;
constexpr uint64_t kProbes = 2;
constexpr double kAccumulation = 0x1p-24;  // half an ulp of f32, what sums are kept in

double smallest(DType dtype) { return tiny(dtype) * eps(dtype); }

/// What a result was made of.
struct Maker {
  const OpInfo& info;
  int64_t terms = 1;                 // of the longest sum
  DType data = DType::f32;           // of the data inputs
  std::vector<Tensors> nudged = {};  // the exact results of moved inputs
};

void widen_terms(int64_t& terms, const Shape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) terms = std::max(terms, shape[axis]);
}

/// A table has more rows than any sum has terms.
bool is_table(const Input& input, const Shape& shape) { return input.role == Role::parameter && shape.rank() > 1; }

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  return largest;
}

double reach_of(const Maker& maker, int i, const std::vector<double>& exact) {
  double reach = 0;
  for (const Tensors& moved : maker.nudged) {
    const std::vector<double> values = to_vector(moved[i]);
    for (size_t k = 0; k < exact.size(); ++k) {
      const double slope = std::abs(values[k] - exact[k]) / kDelta;
      if (std::isfinite(slope)) reach = std::max(reach, slope);
    }
  }
  return reach;
}

/// Result i of `maker` against its exact value.
std::optional<OpError> compare(const Maker& maker, int i, const Tensor& got, const Tensor& exact) {
  if (!got || !exact || !is_float(got.dtype()) || !(got.shape() == exact.shape()) || got.numel() == 0) return {};
  const std::vector<double> values = to_vector(got), truth = to_vector(exact);
  const double scale = largest_of(truth), reach = reach_of(maker, i, truth);
  const double format_end = -lowest(got.dtype()) * (1 - eps(got.dtype()));
  const double inside = 4.0 * static_cast<double>(8 + 2 * maker.terms) * kAccumulation +
                        maker.info.roundings * eps(is_low(maker.data) ? maker.data : got.dtype());
  OpError worst;
  worst.dtype = got.dtype();
  for (size_t k = 0; k < truth.size(); ++k) {
    if (!(std::abs(truth[k]) <= format_end)) {
      if (std::isfinite(truth[k]) && !std::isfinite(values[k]))
        worst.beyond = std::max(worst.beyond, std::abs(truth[k]));
      continue;
    }
    const double bound =
        0.505 * eps(got.dtype()) * std::abs(truth[k]) + inside * (std::abs(truth[k]) + reach) + smallest(got.dtype());
    const double off = std::isfinite(values[k]) ? std::abs(values[k] - truth[k]) : INFINITY;
    if (scale > 0) worst.error = std::max(worst.error, off / scale);
    worst.of_bound = std::max(worst.of_bound, off / bound);
  }
  return worst;
}

/// An error before an overflow, and the larger one of two.
void keep_worse(std::optional<OpError>& worst, std::optional<OpError> found, std::string tensor) {
  if (!found) return;
  const auto rank = [](const OpError& e) { return std::tuple(e.outside(), e.beyond, e.of_bound); };
  if (worst && rank(*worst) >= rank(*found)) return;
  found->tensor = std::move(tensor);
  worst = std::move(found);
}

}  // namespace

std::optional<OpError> error_of(const CallEvent& event) {
  if (!event.moved) return {};
  const Tensors exact = exact_outputs(event);
  if (exact.empty()) return {};
  Maker maker{.info = *event.op.info};
  for (int i = 0; i < event.in.size(); ++i) {
    if (!event.in[i]) continue;
    const Input& input = event.op.info->inputs[i];
    if (!is_table(input, event.in[i].shape())) widen_terms(maker.terms, event.in[i].shape());
    if (input.role == Role::data && is_float(event.in[i].dtype())) maker.data = event.in[i].dtype();
  }
  for (uint64_t probe = 0; probe < kProbes && !autograd::is_cast(event.op); ++probe) {
    maker.nudged.push_back(exact_outputs(event, {.delta = kDelta, .seed = probe}));
  }
  std::optional<OpError> worst;
  for (int i = 0; i < std::min(event.out.size(), exact.size()); ++i) {
    keep_worse(worst, compare(maker, i, event.out[i], exact[i]), "output");
  }
  if (!worst) return {};
  worst->op = event.op.info->name;
  worst->scope = scope_path(context().scope.get());
  return worst;
}

std::optional<OpError> error_of(const BackwardEvent& event) {
  const Tensors exact = exact_gradients(event);
  if (exact.empty()) return {};
  Maker maker{.info = *event.op.info};
  for (int i = 0; i < event.node.input_metas.size(); ++i) {
    const autograd::TensorMeta& meta = event.node.input_metas[i];
    const Input& input = event.op.info->inputs[i];
    if (!is_table(input, meta.shape)) widen_terms(maker.terms, meta.shape);
    if (input.role == Role::data && is_float(meta.dtype)) maker.data = meta.dtype;
  }
  for (const Tensor& incoming : event.incoming) {
    if (incoming) widen_terms(maker.terms, incoming.shape());
  }
  for (uint64_t probe = 0; probe < kProbes && !autograd::is_cast(event.op); ++probe) {
    maker.nudged.push_back(exact_gradients(event, {.delta = kDelta, .seed = probe}));
  }
  std::optional<OpError> worst;
  for (int i = 0; i < event.outgoing.size(); ++i) {
    keep_worse(worst, compare(maker, i, event.outgoing[i], exact[i]),
               message("gradient of ", event.op.info->inputs[i].name));
  }
  if (!worst) return {};
  worst->op = event.op.info->name;
  worst->scope = event.scope;
  worst->backward = true;
  return worst;
}

}  // namespace mixtape::inspect

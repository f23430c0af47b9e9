#include "tools/inspect/exact.h"

#include "autograd/backward.h"
#include "autograd/call.h"
#include "autograd/cast.h"
#include "core/context.h"
#include "core/factory.h"

namespace mixtape::inspect {
namespace {

/// No casts, no tape, nobody who looks; the scope stays.
ContextGuard plain_modes() {
  Context modes = context();
  modes.cast_rule = nullptr;
  modes.grad_enabled = false;
  modes.observer = nullptr;
  return ContextGuard(std::move(modes));
}

/// Floats in f64, nudged; all others as they are.
class Widener {
 public:
  explicit Widener(const Nudge& nudge) : nudge_(nudge) {}

  Tensor operator()(const Tensor& tensor) {
    if (!tensor || !is_float(tensor.dtype())) return tensor;
    const Tensor wide = copy_of(tensor, DType::f64);
    if (nudge_.delta == 0) return wide;
    const RngCoordinates at{.seed = nudge_.seed, .stream = rng_stream::test, .draw = ++draws_};
    double* values = wide.data<double>();
    for (int64_t i = 0; i < wide.numel(); ++i) {
      const bool up = random16(at, static_cast<uint64_t>(i)) >> 15 != 0;
      values[i] *= 1 + (up ? nudge_.delta : -nudge_.delta);
    }
    return wide;
  }
  autograd::Saved operator()(const autograd::Saved& saved) {
    if (!saved.storage) return {};
    const Tensor wide = (*this)(Tensor(saved.storage, saved.geometry));
    return {wide.storage(), wide.geometry(), wide.storage().version()};
  }

 private:
  Nudge nudge_;
  uint32_t draws_ = 0;
};

autograd::TensorMeta widened(const autograd::TensorMeta& meta) {
  return {meta.shape, is_float(meta.dtype) ? DType::f64 : meta.dtype};
}

/// The same node over f64 leaves.
std::shared_ptr<autograd::Node> twin_of(const autograd::Node& node, Widener& wide) {
  auto twin = std::make_shared<autograd::Node>();
  twin->op = node.op;
  twin->attrs = node.attrs;
  twin->modes = context();
  twin->extras_from = node.extras_from;
  twin->order = 1;
  for (int i = 0; i < node.edges.size(); ++i) {
    const autograd::TensorMeta& meta = node.input_metas[i];
    autograd::Edge edge;
    if (node.edges[i] && is_float(meta.dtype)) edge.leaf = empty(meta.shape, DType::f64).set_requires_grad();
    twin->edges.push_back(edge);
    twin->input_metas.push_back(widened(meta));
    twin->inputs.push_back(wide(node.inputs[i]));
  }
  for (int i = 0; i < node.output_metas.size(); ++i) {
    twin->output_metas.push_back(widened(node.output_metas[i]));
    twin->outputs.push_back(wide(node.outputs[i]));
  }
  return twin;
}

}  // namespace

Tensors exact_outputs(const CallEvent& event, const Nudge& nudge) {
  if (event.op.id < 0) return {};
  Widener wide(nudge);
  Tensors in;
  bool has_float = false;
  for (const Tensor& tensor : event.in) {
    in.push_back(wide(tensor));
    has_float = has_float || (tensor && is_float(tensor.dtype()));
  }
  if (!has_float) return {};
  if (autograd::is_cast(event.op)) return in;
  const ContextGuard modes = plain_modes();
  return autograd::call(event.op, event.attrs, in);
}

Tensors exact_gradients(const BackwardEvent& event, const Nudge& nudge) {
  if (event.op.id < 0 || event.outgoing.empty()) return {};
  const ContextGuard modes = plain_modes();
  Widener wide(nudge);
  const std::shared_ptr<autograd::Node> twin = twin_of(event.node, wide);
  Tensors roots, seeds, wanted;
  for (int i = 0; i < event.incoming.size(); ++i) {
    if (!event.incoming[i] || i >= twin->extras_from) continue;
    Tensor root = empty(twin->output_metas[i].shape, DType::f64);
    root.set_node(twin, i);
    roots.push_back(root);
    seeds.push_back(wide(event.incoming[i]));
  }
  Tensors gradients(event.outgoing.size());
  for (int i = 0; i < gradients.size(); ++i) {
    if (twin->edges[i] && event.outgoing[i]) wanted.push_back(twin->edges[i].leaf);
  }
  if (roots.empty() || wanted.empty()) return gradients;
  const Tensors found = autograd::grad(roots, wanted, {}, seeds);
  for (int i = 0, k = 0; i < gradients.size(); ++i) {
    if (twin->edges[i] && event.outgoing[i]) gradients[i] = found[k++];
  }
  return gradients;
}

}  // namespace mixtape::inspect

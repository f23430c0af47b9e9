#include "autograd/checkpoint.h"

#include "autograd/backward.h"

namespace mixtape::autograd {
namespace {

struct Recompute {
  std::function<Tensors(const Tensors&)> part;
  Context modes;
};

Tensors backward_by_recompute(const void* attrs, Grads& g) {
  const Recompute& recompute = *static_cast<const Recompute*>(attrs);
  if (g.create_graph())
    fail(ErrorKind::internal, "E-TAPE", "create_graph does not work through a checkpoint: call the part without it");
  Tensors again, wanted;
  for (int i = 0; i < g.count(); ++i) {
    Tensor input = g.has(i) ? g.in(i) : Tensor();
    if (g.needs_grad(i)) wanted.push_back(input.set_requires_grad());
    again.push_back(input);
  }
  Tensors outputs, roots, seeds;
  {
    Context modes = recompute.modes;
    modes.grad_enabled = true;
    const ContextGuard guard(std::move(modes));
    outputs = recompute.part(again);
  }
  for (int i = 0; i < outputs.size(); ++i) {
    if (!g.dy(i) || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(g.dy(i));
  }
  const Tensors found = g.inner(roots, seeds, wanted);
  Tensors gradients;
  for (int i = 0, k = 0; i < g.count(); ++i) gradients.push_back(g.needs_grad(i) ? found[k++] : Tensor());
  return gradients;
}

// Not a row of the table: it has no formula and no precision of its own. Gradients pass through as they come.
constexpr OpInfo info{.name = "checkpoint",
                      .precision = Rule::keep,
                      .inputs = {Input{"input"}},
                      .any_dtype = true,
                      .variadic = true,
                      .wide_dy = true};

const OpSchema& schema() {
  static const OpSchema checkpoint = [] {
    OpSchema s{};
    s.info = &info;
    s.backward = s.device_backward = &backward_by_recompute;
    return s;
  }();
  return checkpoint;
}

}  // namespace

bool is_checkpoint(const OpSchema& op) { return &op == &schema(); }

Tensors checkpoint(const std::function<Tensors(const Tensors&)>& part, const Tensors& inputs) {
  const auto node = std::make_shared<Node>();
  node->op = &schema();
  node->modes = context();
  node->modes.observer = nullptr;
  node->attrs = std::make_shared<const Recompute>(Recompute{part, node->modes});
  bool recording = false;
  for (const Tensor& input : inputs) {
    node->edges.push_back(edge_of(input));
    if (const Edge& edge = node->edges[node->edges.size() - 1]) {
      recording = context().grad_enabled;
      if (edge.node && edge.node->order >= node->order) node->order = edge.node->order + 1;
    }
    node->input_metas.push_back(input ? TensorMeta{input.shape(), input.dtype()} : TensorMeta{});
    node->inputs.push_back(input ? Saved{input.storage(), input.geometry(), input.storage().version()} : Saved{});
  }
  if (!recording) return part(inputs);
  Tensors outputs, results;
  {
    const NoGradGuard guard;
    outputs = part(inputs);
  }
  for (int i = 0; i < outputs.size(); ++i) {
    node->output_metas.push_back({outputs[i].shape(), outputs[i].dtype()});
    results.push_back(outputs[i].detach());
    results[i].set_node(node, i);
  }
  return results;
}

}  // namespace mixtape::autograd

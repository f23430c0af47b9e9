#include "autograd/backward.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd/cast.h"
#include "autograd/checkpoint.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/parameter.h"

namespace mixtape::autograd {
namespace {

constexpr std::string_view gradient_sum = "gradient sum";  // what an observer hears

[[noreturn]] void fail_tape(const std::string& what) { fail(ErrorKind::internal, "E-TAPE", what); }

// Gradients that meet take the widest arrival.
Tensor sum_of(const Tensor& a, const Tensor& b, bool create_graph) {
  if (create_graph) return accumulate(a, b);
  Tensor out = empty(a.shape(), widest(a.dtype(), b.dtype()), a.device());
  kernels::add_scaled(a.view(), 1.0, b.view(), 1.0, out.view());
  return out;
}

// That of the gradients that arrived: the sweep's roots and their seeds share one, and so do the inputs of each op.
Device device_of(const Tensors& dys) {
  for (const Tensor& dy : dys) {
    if (dy) return dy.device();
  }
  return {};
}

bool same_factor(const Tensor& a, const Tensor& b) { return a && b ? a.same_as(b) : !a && !b; }

// Adds to a leaf's pair. `raw` is immutable once shared; a second sweep at another scale rescales it exactly.
void add_to_leaf(const Tensor& leaf, const Tensor& arriving, const Tensor& rows, double scale, Tensor factor) {
  Gradient& gradient = leaf.leaf().gradient;
  const DType dtype = wide(leaf.dtype());
  if (gradient && !same_factor(gradient.factor, factor)) {  // the host multiplies them, and waits
    gradient.multiplier = gradient.size();
    if (factor) scale /= factor.item();
    gradient.factor = factor = {};
  }
  const double multiplier = 1.0 / scale;
  if (!gradient) {
    const bool usable = arriving.dtype() == dtype && arriving.contiguous();
    gradient = {usable ? arriving.detach() : copy_of(arriving, dtype), multiplier, rows, factor};
    return;
  }
  if (gradient.rows) gradient = {all_rows(gradient, leaf.shape()), gradient.multiplier};
  const Tensor whole = all_rows({arriving, 1.0, rows}, leaf.shape());
  Tensor sum = gradient.raw.unique() ? gradient.raw : empty(gradient.raw.shape(), dtype, gradient.raw.device());
  kernels::add_scaled(gradient.raw.view(), gradient.multiplier * scale, whole.view(), 1.0, sum.view());
  sum.storage().bump_version();
  gradient = {sum, multiplier, {}, factor};
}

}  // namespace

// One sweep: pending gradients by node, the nodes in a queue by descending order.
class Sweep {
 public:
  Sweep(const BackwardOptions& options, Sweep* outer)
      : options_(options), outer_(outer), observer_(outer ? outer->observer_ : context().observer) {}

  bool create_graph() const { return options_.create_graph; }
  const BackwardOptions& options() const { return options_; }

  void want(const Tensor& tensor) {
    if (tensor.is_leaf())
      leaf_sinks_[tensor.identity()];
    else
      node_sinks_[{tensor.node().get(), tensor.output_index()}];
  }
  Tensor collected(const Tensor& tensor) const {
    if (tensor.is_leaf()) return leaf_sinks_.at(tensor.identity());
    return node_sinks_.at({tensor.node().get(), tensor.output_index()});
  }

  bool takes_rows(const Edge& edge) {
    return edge.leaf && !create_graph() && root().accumulate_in_leaves_ && !sink_of(edge.leaf) &&
           !edge.leaf.leaf().gradient;
  }

  void run(const Tensors& roots, const Tensors& seeds) {
    if (options_.on_leaf_ready && !outer_) count_arrivals(roots);
    for (int i = 0; i < roots.size(); ++i) deliver(edge_of(roots[i]), seeds[i]);
    while (!queue_.empty()) {
      Entry entry = queue_.top();
      queue_.pop();
      const auto found = pending_.find(entry.node.get());
      Tensors dys = std::move(found->second);
      pending_.erase(found);
      step(*entry.node, std::move(dys));
    }
    if (announce_at_end_) {
      for (const auto& [identity, leaf] : touched_) options_.on_leaf_ready(leaf);
    }
  }

 private:
  struct Entry {
    std::shared_ptr<Node> node;
    int64_t sequence;  // ties in the order of arrival: the sweep is deterministic
    bool operator<(const Entry& other) const {
      return node->order != other.node->order ? node->order < other.node->order : sequence > other.sequence;
    }
  };
  struct NodeOutput {
    Node* node;
    int output;
    bool operator==(const NodeOutput&) const = default;
  };
  struct HashNodeOutput {
    size_t operator()(const NodeOutput& key) const {
      return std::hash<Node*>()(key.node) * 31 + static_cast<size_t>(key.output);
    }
  };

  void deliver(const Edge& edge, const Tensor& gradient, const Tensor& rows = {}) {
    if (!edge || !gradient) return;
    if (edge.leaf) return deliver_leaf(edge.leaf, gradient, rows);
    Tensors& slots = pending_[edge.node.get()];
    if (slots.empty()) {
      slots = Tensors(edge.node->output_metas.size());
      queue_.push({edge.node, sequence_++});
    }
    Tensor& slot = slots[edge.output];
    slot = slot ? sum(slot, gradient) : gradient;
  }

  /// Where a gradient of `leaf` is collected instead of being added to it; null: nowhere.
  Tensor* sink_of(const Tensor& leaf) {
    for (Sweep* sweep = this; sweep; sweep = sweep->outer_) {
      if (const auto sink = sweep->leaf_sinks_.find(leaf.identity()); sink != sweep->leaf_sinks_.end()) {
        return &sink->second;
      }
    }
    return nullptr;
  }

  void deliver_leaf(const Tensor& leaf, const Tensor& gradient, const Tensor& rows) {
    if (Tensor* sink = sink_of(leaf)) {
      *sink = *sink ? sum(*sink, gradient) : gradient;
      return;
    }
    if (!root().accumulate_in_leaves_) return;
    {
      const Working working(observer_, gradient_sum);
      add_to_leaf(leaf, gradient, rows, options_.scale, options_.factor);
    }
    if (options_.on_leaf_ready) root().arrived(leaf);
  }

  Tensor sum(const Tensor& a, const Tensor& b) const {
    const Working working(observer_, gradient_sum);
    return sum_of(a, b, create_graph());
  }

  Tensor converted(const Tensor& gradient, DType dtype) const {
    if (gradient.dtype() == dtype) return gradient;
    const Working working(observer_, "cast");
    return create_graph() ? cast(gradient, dtype) : copy_of(gradient, dtype);
  }

  void step(Node& node, Tensors dys) {
    if (node.freed)
      fail_tape("backward: the graph at " + node.place() + " was freed by an earlier sweep: pass retain_graph");
    if (!node.op->backward && !node.op->device_backward) fail_tape("backward: " + node.place() + " has no backward");
    for (int i = 0; i < dys.size(); ++i) {
      if (!dys[i]) continue;
      if (const auto sink = node_sinks_.find({&node, i}); sink != node_sinks_.end()) sink->second = dys[i];
      if (!node.op->info->wide_dy) dys[i] = converted(dys[i], node.output_metas[i].dtype);
    }
    Grads grads(*this, node, dys);
    if (create_graph() && !node.op->info->twice) {
      fail_tape(message("create_graph: ", node.place(), " cannot be differentiated twice",
                        node.op->info->absorbs.empty() ? "" : ": call it under a ComposedGuard, as ",
                        node.op->info->absorbs));
    }
    const Tensors gradients = [&] {
      const Working working(observer_, node.op->info->name);
      return node.op->backward_on(device_of(dys))(node.attrs.get(), grads);
    }();
    check(node, grads, gradients);
    if (observer_ && observer_->on_backward) {
      observer_->on_backward(observer_->self, {*node.op, scope_path(node.modes.scope.get()), dys, gradients, node});
    }
    for (int i = 0; i < gradients.size(); ++i) deliver(node.edges[i], gradients[i], grads.rows(i));
    if (!options_.retain_graph && !options_.create_graph) node.free_saved();
  }

  void check(const Node& node, const Grads& grads, const Tensors& gradients) const {
    if (gradients.size() != node.edges.size()) {
      fail_tape(message("backward of ", node.place(), " returned ", gradients.size(), " gradients for ",
                        node.edges.size(), " inputs"));
    }
    for (int i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) continue;
      const TensorMeta& meta = node.input_metas[i];
      const bool may_be_wide = node.op->info->wide_dy || node.op->info->inputs[i].wide_grad;
      const bool dtype_fits =
          gradients[i].dtype() == meta.dtype || (may_be_wide && gradients[i].dtype() == wide(meta.dtype));
      Shape wanted = meta.shape;
      if (grads.rows(i)) wanted[0] = grads.rows(i).numel();
      if (gradients[i].shape() == wanted && dtype_fits) continue;
      fail_tape(message("backward of ", node.place(), ": the gradient of '", node.op->info->inputs[i].name, "' is ",
                        name_of(gradients[i].dtype()), gradients[i].shape().str(), ", the input ", name_of(meta.dtype),
                        meta.shape.str()));
    }
  }

  // --- on_leaf_ready: the outermost sweep counts how often each leaf will be reached, before it starts ---
  Sweep& root() { return outer_ ? outer_->root() : *this; }

  void count_arrivals(const Tensors& roots) {
    std::unordered_set<Node*> seen;
    std::vector<Node*> open;
    const auto visit = [&](const Edge& edge) {
      if (edge.leaf)
        ++expected_[edge.leaf.identity()];
      else if (edge.node && seen.insert(edge.node.get()).second)
        open.push_back(edge.node.get());
    };
    for (const Tensor& tensor : roots) visit(edge_of(tensor));
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      // A checkpoint hides the leaves of its inside: then "complete" is known only at the end.
      if (is_checkpoint(*node->op)) announce_at_end_ = true;
      for (const Edge& edge : node->edges) visit(edge);
    }
  }
  void arrived(const Tensor& leaf) {
    if (announce_at_end_)
      touched_.emplace(leaf.identity(), leaf);
    else if (--expected_[leaf.identity()] == 0)
      options_.on_leaf_ready(leaf);
  }

 public:
  bool accumulate_in_leaves_ = true;

 private:
  const BackwardOptions options_;
  Sweep* outer_;
  const Observer* observer_;
  std::priority_queue<Entry> queue_;
  int64_t sequence_ = 0;
  std::unordered_map<Node*, Tensors> pending_;
  std::unordered_map<const void*, Tensor> leaf_sinks_;
  std::unordered_map<NodeOutput, Tensor, HashNodeOutput> node_sinks_;
  std::unordered_map<const void*, int> expected_;
  std::unordered_map<const void*, Tensor> touched_;
  bool announce_at_end_ = false;
};

namespace {

// The cast rule is null inside every backward, recording only under create_graph. Ops that a backward calls are no
// forward calls: the observer hears of the node alone.
ContextGuard sweep_modes(bool create_graph) {
  Context modes = context();
  modes.cast_rule = nullptr;
  modes.grad_enabled = create_graph;
  modes.observer = nullptr;
  return ContextGuard(std::move(modes));
}

Tensors default_seeds(const Tensors& outputs, Tensors seeds, double scale) {
  if (!seeds.empty()) return seeds;
  for (const Tensor& output : outputs) {
    if (output.numel() != 1) fail_tape("backward: expected a one-element loss, got shape " + output.shape().str());
    seeds.push_back(full(output.shape(), scale, output.dtype(), output.device()));
  }
  return seeds;
}

void check_roots(const Tensors& outputs, const Tensors& seeds) {
  for (int i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad())
      fail_tape("backward: the loss has no graph (no leaf requires a gradient, or it was made under NoGradGuard)");
    if (!(seeds[i].shape() == outputs[i].shape())) fail_tape("backward: a seed's shape differs from its output's");
    if (!(seeds[i].device() == outputs[i].device())) {
      fail(ErrorKind::internal, "E-DEVICE-MIXED",
           message("backward: a seed lies on ", name_of(seeds[i].device()), ", its output on ",
                   name_of(outputs[i].device()), ": move one of them with to()"));
    }
  }
}

}  // namespace

void backward(const Tensors& outputs, const Tensors& seeds, const BackwardOptions& options) {
  const Tensors start = default_seeds(outputs, seeds, options.scale);
  check_roots(outputs, start);
  Sweep sweep(options, nullptr);
  const ContextGuard guard = sweep_modes(options.create_graph);
  sweep.run(outputs, start);
}

void backward(const Tensor& loss, const BackwardOptions& options) { backward(Tensors{loss}, {}, options); }

void backward(const ScaledLoss& loss, BackwardOptions options) {
  options.scale = loss.scale;
  options.factor = loss.factor;
  backward(Tensors{loss.loss}, loss.seed ? Tensors{loss.seed} : Tensors{}, options);
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const BackwardOptions& options, Tensors seeds) {
  const Tensors start = default_seeds(outputs, std::move(seeds), options.scale);
  check_roots(outputs, start);
  Sweep sweep(options, nullptr);
  sweep.accumulate_in_leaves_ = false;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) fail_tape("grad: an input has no place on the tape");
    sweep.want(input);
  }
  const ContextGuard guard = sweep_modes(options.create_graph);
  sweep.run(outputs, start);
  Tensors results;
  for (const Tensor& input : inputs) results.push_back(sweep.collected(input));
  return results;
}

bool Grads::create_graph() const { return sweep_.create_graph(); }
bool Grads::takes_rows(int i) const { return sweep_.takes_rows(node_.edges[i]); }
void Grads::give_rows(int i, Tensor rows) { rows_[i] = std::move(rows); }

Tensor Grads::unpack(const Saved& saved, const char* what, int i) const {
  if (!saved.storage)
    fail_tape(message("backward of ", node_.place(), ": ", what, " ", i, " was not saved: add it to OpInfo::saves"));
  if (saved.storage.version() != saved.version) {
    fail_tape(message("backward of ", node_.place(), ": ", what, " ", i,
                      " was overwritten after it was saved (version ", static_cast<int64_t>(saved.storage.version()),
                      ", saved at ", static_cast<int64_t>(saved.version), ")"));
  }
  return Tensor(saved.storage, saved.geometry);
}

Tensor Grads::in(int i) const {
  Tensor tensor = unpack(node_.inputs[i], "input", i);
  const Edge& edge = node_.edges[i];
  if (!create_graph() || !edge) return tensor;
  if (edge.leaf) return edge.leaf;
  tensor.set_node(edge.node, edge.output);
  return tensor;
}

Tensor Grads::out(int i) const {
  Tensor tensor = unpack(node_.outputs[i], "output", i);
  if (create_graph()) tensor.set_node(node_.shared_from_this(), i);
  return tensor;
}

Tensors Grads::inner(const Tensors& roots, const Tensors& seeds, const Tensors& wanted) {
  BackwardOptions options = sweep_.options();
  options.retain_graph = false;
  Sweep sweep(options, &sweep_);
  for (const Tensor& tensor : wanted) sweep.want(tensor);
  const ContextGuard guard = sweep_modes(options.create_graph);
  sweep.run(roots, seeds);
  Tensors results;
  for (const Tensor& tensor : wanted) results.push_back(sweep.collected(tensor));
  return results;
}

}  // namespace mixtape::autograd

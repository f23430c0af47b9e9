#include "autograd/node.h"

namespace mixtape::autograd {

Edge edge_of(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  if (tensor.node()) return {tensor.node(), tensor.output_index(), {}};
  return {nullptr, 0, tensor};
}

Node::~Node() {
  std::shared_ptr<Node> loose;
  const auto unlink = [&](Node& node) {
    for (Edge& edge : node.edges) {
      std::shared_ptr<Node> behind = std::move(edge.node);
      if (!behind || behind.use_count() > 1) continue;  // somebody else's last reference will unlink it
      behind->next_loose_ = std::move(loose);
      loose = std::move(behind);
    }
  };
  unlink(*this);
  while (loose) {
    const std::shared_ptr<Node> node = std::move(loose);
    loose = std::move(node->next_loose_);
    unlink(*node);
  }
}

std::string Node::place() const {
  const std::string path = scope_path(modes.scope.get());
  return path.empty() ? std::string(op->info->name) : message(op->info->name, " (in ", path, ")");
}

void Node::free_saved() {
  inputs.clear();
  outputs.clear();
  attrs.reset();
  freed = true;
}

}  // namespace mixtape::autograd

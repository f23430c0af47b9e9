#include "autograd/node.h"

#include <vector>

namespace mixtape::autograd {

Edge edge_of(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  if (tensor.node()) return {tensor.node(), tensor.output_index(), {}};
  return {nullptr, 0, tensor};
}

Node::~Node() {
  std::vector<std::shared_ptr<Node>> loose;
  const auto unlink = [&](Node& node) {
    for (Edge& edge : node.edges) {
      if (edge.node) loose.push_back(std::move(edge.node));
    }
  };
  unlink(*this);
  while (!loose.empty()) {
    const std::shared_ptr<Node> node = std::move(loose.back());
    loose.pop_back();
    if (node.use_count() == 1) unlink(*node);
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

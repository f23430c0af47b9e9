#include "core/context.h"

#include <algorithm>

namespace mixtape {

Context& context() {
  thread_local Context current;
  return current;
}

bool Context::composes(const OpSchema& row) const {
  return !fused || (composed && std::find(composed->begin(), composed->end(), &row) != composed->end());
}

std::string scope_path(const ScopeFrame* frame) {
  if (!frame) return "";
  const std::string above = scope_path(frame->parent.get());
  return above.empty() ? frame->name : above + "." + frame->name;
}

Scope::Scope(std::string name) : saved_(context().scope) {
  context().scope = std::make_shared<const ScopeFrame>(ScopeFrame{saved_, std::move(name)});
}

}  // namespace mixtape

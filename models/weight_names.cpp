#include "models/weight_names.h"

namespace mixtape::models {

std::string parameter_name(std::string_view file_name) {
  std::string name(file_name);
  const auto rewrite_end = [&](std::string_view from, std::string_view to) {
    if (!name.ends_with(from)) return;
    name.replace(name.size() - from.size(), from.size(), to);
  };
  rewrite_end("LayerNorm.gamma", "LayerNorm.weight");
  rewrite_end("LayerNorm.beta", "LayerNorm.bias");
  for (const std::string_view part : {"embeddings.", "encoder.", "pooler."}) {
    if (name.starts_with(part)) return "bert." + name;
  }
  return name;
}

}  // namespace mixtape::models

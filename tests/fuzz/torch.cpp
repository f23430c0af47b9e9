// PyTorch checkpoints of both forms: every tensor that the reader lists can be read, and has the bytes of its shape.
#include "core/factory.h"
#include "data/torch_checkpoint.h"
#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const auto file = std::as_bytes(std::span(bytes.data(), bytes.size()));
  const auto parsed = data::TorchCheckpoint::parse(file);
  require(parsed.value.has_value() == parsed.error.empty(), "a value or an error");
  if (!parsed.value) return;
  for (const data::TorchTensor& entry : parsed.value->tensors()) {
    const Tensor tensor = parsed.value->read(entry);
    require(tensor.shape() == entry.shape && tensor.dtype() == entry.dtype, "a tensor is what the list says");
    require(parsed.value->find(entry.name) != nullptr, "a tensor is found by its name");
  }
}

}  // namespace mixtape::fuzz

#include "tools/trainer/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>
#include <vector>

#include "core/factory.h"
#include "data/file.h"

namespace mixtape::trainer {

Hash::Hash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_);
}

Hash::~Hash() { XXH3_freeState(state_); }

void Hash::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_, bytes.data(), bytes.size()); }

void Hash::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

std::string Hash::digits() const {
  const XXH128_hash_t value = XXH3_128bits_digest(state_);
  return fmt::format("{:016x}{:016x}", value.high64, value.low64);
}

std::string hash_of_file(const std::string& path) {
  data::InputFile file(path, ErrorKind::io, "E-IO-READ");
  std::vector<std::byte> buffer(size_t{1} << 16);
  Hash hash;
  while (const size_t got = file.read_next(buffer)) hash.add(std::span(buffer).first(got));
  return hash.digits();
}

std::string hash_of_tensors(const NamedTensors& tensors) {
  Hash hash;
  for (const NamedTensor& entry : tensors) {
    const Tensor dense = to(entry.tensor.contiguous() ? entry.tensor : copy_of(entry.tensor), {});
    hash.add(message(entry.name, "\n", name_of(dense.dtype()), dense.shape().str(), "\n"));
    const size_t bytes = static_cast<size_t>(dense.numel() * size_of(dense.dtype()));
    hash.add(std::span(static_cast<const std::byte*>(dense.view().data), bytes));
  }
  return hash.digits();
}

}  // namespace mixtape::trainer

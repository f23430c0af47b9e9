#include "optim/rounding.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/blocks.h"
#include "core/kernels/random.h"

namespace mixtape::optim {
namespace {

using kernels::block_size;

void store_stochastic(const RngCoordinates& at, const float* values, bf16* out, int64_t start, int64_t n) {
  uint16_t draws[block_size];
  kernels::random16_run(at, static_cast<uint64_t>(start), n, draws);
  for (int64_t i = 0; i < n; ++i) out[i] = to_bf16_stochastic(values[i], draws[i]);
}

// What nearest rounding takes away is exact in f32; inf and NaN take nothing.
void store_compensated(const float* values, bf16* out, bf16* compensation, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = to_bf16(values[i]);
    const float rest = values[i] - to_float(out[i]);
    compensation[i] = to_bf16(rest - rest == 0 ? rest : 0.0f);
  }
}

}  // namespace

void Storing::recall(int64_t start, int64_t n, float* values) const {
  if (rounding != Rounding::compensated) return;
  const bf16* rest = compensation.data<bf16>() + start;
  for (int64_t i = 0; i < n; ++i) values[i] += to_float(rest[i]);
}

void Storing::store(const float* values, const float* raw, const View& target, int64_t start, int64_t n) const {
  uint16_t* out = static_cast<uint16_t*>(target.data) + start;
  bf16* rest = rounding == Rounding::compensated ? compensation.data<bf16>() + start : nullptr;
  uint16_t before[block_size];
  bf16 rest_before[block_size];
  std::copy_n(out, n, before);
  if (rest) std::copy_n(rest, n, rest_before);
  switch (rounding) {
    case Rounding::nearest: kernels::store_any<float>(values, target, start, 1, n); break;
    case Rounding::stochastic: store_stochastic(draws, values, target.as<bf16>() + start, start, n); break;
    case Rounding::compensated: store_compensated(values, target.as<bf16>() + start, rest, n); break;
  }
  if (!count) return;
  int64_t wanted = 0, lost = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool asked = raw[i] != 0, stays = out[i] == before[i] && (!rest || rest[i].bits == rest_before[i].bits);
    wanted += asked;
    lost += asked && stays;
  }
  count->wanted.fetch_add(wanted, std::memory_order_relaxed);
  count->lost.fetch_add(lost, std::memory_order_relaxed);
}

}  // namespace mixtape::optim

// attend() and attend_backward() of device code: launches (core/kernels/flash.cuh). Offsets that cut nothing give NaN.
#include "ops/attention_blocks.h"

#include "core/kernels/flash_backward.cuh"

namespace mixtape::ops {

void attend(const AttentionBlocks& blocks, const View& q, const View& k, const View& v, const View& out) {
  kernels::device::attend(blocks, q, k, v, out);
}

void attend_backward(const AttentionBlocks& blocks, const View& dy, const View& q, const View& k, const View& v,
                     const View& dq, const View& dk, const View& dv) {
  kernels::device::attend_backward(blocks, dy, q, k, v, dq, dk, dv);
}

}  // namespace mixtape::ops

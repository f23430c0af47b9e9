// Attention as graphs of cuDNN: all of its words stand in attention_cudnn.cpp. The properties of a device are told, not
// asked for, so that the library can say without a GPU what it would run on one. Nothing calls these graphs yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace mixtape::kernels::device {

/// What a graph is made for: q, k, v and out are [sequences, heads, longest, columns], each token's heads side by side.
struct SdpaShape {
  int64_t sequences, heads, longest, columns;
  int64_t row_stride;  ///< elements from a token of q, k or v to the next: heads·columns, or more where they lie joined
  DType dtype;         ///< f16 or bf16; any other is E-CUDA-SDPA
  bool ragged;         ///< tokens lie without gaps, at offsets that a call brings; else padded to `longest`
  float scale;         ///< of the scores
  double p;            ///< of dropping a weight, in [0, 1); cuDNN draws a mask of its own, which is not ours
};

/// The tensors of a graph, by which a call names its memory. Lengths are i32 [sequences]; offsets i64 [sequences + 1]
/// in elements, `q_offsets` for rows of row_stride, `out_offsets` for rows of heads·columns; seed and draw i64 [1], all
/// on the device. f32: stats [sequences, heads, longest], log Σ exp of each row, and what a call lends backward,
/// slope_sums of that shape, dq_sums [sequences, heads, longest, columns]. Scalars are counted on from first_scalar.
enum class SdpaTensor : uint8_t {
  q,
  k,
  v,
  out,
  stats,
  lengths,
  q_offsets,
  out_offsets,
  seed,
  draw,
  dy,
  dq,
  dk,
  dv,
  slope_sums,
  dq_sums,
  first_scalar
};

/// A forward or backward graph, and the first engine of cuDNN's heuristics that supports it.
class SdpaGraph {
 public:
  /// For the device that `properties` (JSON, cuDNN ≥ 9.11) describe. Throws E-CUDA-SDPA, with cuDNN's words, where the
  /// graph is none, or no engine of the library runs it there. A libcuda must be found, be it the toolkit's stub.
  SdpaGraph(const SdpaShape& shape, bool backward, const std::string& properties);
  ~SdpaGraph();
  SdpaGraph(const SdpaGraph&) = delete;
  SdpaGraph& operator=(const SdpaGraph&) = delete;

  int64_t workspace() const;                  ///< bytes of device memory that the engine needs
  const std::vector<float>& scalars() const;  ///< the values of the tensors that a call passes from the host

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mixtape::kernels::device

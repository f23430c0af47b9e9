// gemm on a GPU: the same products of the same views, in device memory. docs/device.md tells what the library does.
#pragma once

#include <functional>

#include "core/kernels/gemm.h"

struct CUstream_st;

namespace mixtape::kernels::device {

using Stream = CUstream_st*;  ///< cudaStream_t; null: the standard stream

/// What a product on a GPU can be asked for beside GemmOptions.
struct GemmRequest {
  const char* op = "gemm";  ///< who asks: named in every error, with the part of the model that runs
  Stream stream = nullptr;
  bool tf32 = false;      ///< f32 operands may be rounded to TF32, ten bits of mantissa
  bool low_bias = false;  ///< beside a 16-bit c the bias is rounded to c's dtype: then the library adds it by itself
  View a_sums = {};       ///< [m], f32: gets the sums of a along k, where a is dyᵀ the gradient of a bias
  View b_sums = {};       ///< [n], f32: gets the sums of b along k
};

/// kernels::gemm for views in device memory: shapes, layouts, options and errors are the same. Nothing waits for the
/// host. f32 and 16-bit products are cublasLt's, f64 ones a kernel of our own without a_sums and b_sums. Sums need
/// operands without batch axes; they are neither scaled nor accumulated. Throws E-GEMM, E-DEVICE, E-CUDA-GEMM.
void library_gemm(const View& a, const View& b, const View& c, const GemmOptions& options = {},
                  const GemmRequest& request = {});

/// Seconds that the work takes which `run` puts on the stream.
using GemmTimer = std::function<double(Stream stream, const std::function<void()>& run)>;
/// From now on the first call of a kind of product times the library's `candidates` best suggestions and keeps the
/// fastest; without a timer the first suggestion is taken. Time at warm-up: a stream that is captured cannot wait.
void tune_gemm(GemmTimer timer, int candidates = 8);
/// A timer by the GPU's own clock: the fastest of five runs. Null in builds for the CPU.
GemmTimer event_timer();

/// Waits for the device, then gives back the library's handle, the workspaces and all that was learnt.
void release_gemm();

}  // namespace mixtape::kernels::device

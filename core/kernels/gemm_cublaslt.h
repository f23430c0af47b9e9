// cublasLt as an engine of products: all of its words stand in gemm_cublaslt.cpp, its column-major view of the world
// among them. That file knows nothing else of CUDA: memory is its caller's.
#pragma once

#include <memory>

#include "core/kernels/gemm_cuda.h"

namespace mixtape::kernels::device {

/// c = alpha·a·b (+ c) for `batch` products; a [m, k], b [k, n] row-major or stored transposed, c [m, n] row-major.
struct LtProduct {
  struct Matrix {
    void* data;
    int64_t ld;            ///< elements from one stored row to the next
    int64_t batch_stride;  ///< elements; 0 in a or b: the same for all
    bool transposed;
  };
  /// What the library does beside the product: adds a bias [n] to all rows, or sums a or b along k.
  enum class Extra : uint8_t { none, bias, a_sums, b_sums };

  int64_t m, n, k, batch;
  Matrix a, b, c;
  DType dtype, c_dtype;  ///< of a and b: f32, f16, bf16; of c: the same, or f32
  float alpha;
  bool accumulate, tf32;
  Extra extra;
  void* vector;  ///< the bias or the sums, of c's dtype
  const char* op;
};

/// What a call may use on its stream.
struct LtRoom {
  void* workspace;
  size_t bytes;
  Stream stream;
};

class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// How many ways the library suggests for this kind of product, at most `most`; it is asked once a kind.
  int suggestions(const LtProduct& product, const LtRoom& room, int most);
  /// Keeps the fastest suggestion. The products go to `target`, which is laid out as c; c is only read.
  void choose(const LtProduct& product, const LtRoom& room, void* target, const GemmTimer& timer);
  /// Enqueues the product. Expects that there is a suggestion.
  void multiply(const LtProduct& product, const LtRoom& room);

 private:
  struct Kind;
  struct Library;
  Kind& kind_of(const LtProduct& product, const LtRoom& room, int most);
  std::unique_ptr<Library> library_;
};

}  // namespace mixtape::kernels::device

// Matrix products on both machines, and what the checking fake of cublasLt thought of them.
#pragma once

#include "core/kernels/gemm_cuda.h"
#include "core/kernels/layout.h"
#include "tests/simt/both.cuh"
#if defined(MIXTAPE_SIMT)
#include "tests/simt/cublaslt_fake.h"
#endif

namespace mixtape::simt_tests {

using kernels::GemmOptions;
using kernels::device::GemmRequest;

/// One call, on the machine `on` stands for.
template <class On>
void multiply(const On&, const View& a, const View& b, const View& c, const GemmOptions& options = {},
              const GemmRequest& request = {}) {
  if constexpr (std::is_same_v<On, OnDevice>) {
    kernels::device::library_gemm(a, b, c, options, request);
  } else {
    kernels::gemm(a, b, c, options);
    const auto with_axis = [](View v, int axis) {
      v.shape.insert(axis, 1);
      v.strides.insert(axis, 1);
      return v;
    };
    if (request.a_sums) kernels::fold(kernels::Identity{}, a.shape, with_axis(request.a_sums, 1), a);
    if (request.b_sums) kernels::fold(kernels::Identity{}, b.shape, with_axis(request.b_sums, 0), b);
  }
}

/// Products of one test: at the end nothing of the library lives, and it was asked for nothing that it does not allow.
class GemmSession {
 public:
  GemmSession() {
#if defined(MIXTAPE_SIMT)
    simt::lt_control() = {};
#endif
  }
  ~GemmSession() {
    kernels::device::tune_gemm(nullptr);
    kernels::device::release_gemm();
#if defined(MIXTAPE_SIMT)
    CHECK(simt::lt_objects() == 0);
    for (const std::string& violation : simt::lt_control().violations) CHECK_MESSAGE(false, violation);
#endif
  }
  GemmSession(const GemmSession&) = delete;
  GemmSession& operator=(const GemmSession&) = delete;
};

/// The same bytes with other numbers.
inline View with_layout(View v, const Shape& shape, const Strides& strides) {
  v.shape = shape;
  v.strides = strides;
  return v;
}

}  // namespace mixtape::simt_tests

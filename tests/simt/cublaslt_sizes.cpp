// The fake's attributes against the library that is installed: what a GPU is not needed for. Linked with cublasLt, by
// cmake/cublaslt_check.sh.
#include <cublasLt.h>

#include <cstdio>
#include <cstring>

#include "tests/simt/cublaslt_fake.h"

namespace {

using namespace mixtape::simt;

int wrong = 0, right = 0;

void expect(bool holds, const char* what, const char* name) {
  holds ? ++right : ++wrong;
  if (!holds) std::printf("cublasLt: %s: %s\n", name, what);
}

/// `defaults`: what the fake begins with.
template <class Object, class Number, class Get, class Set>
void compare(Object object, const std::vector<LtAttribute>& attributes, const void* defaults, Get get, Set put) {
  for (const LtAttribute& attribute : attributes) {
    const auto number = static_cast<Number>(attribute.number);
    size_t bytes = 0;
    char value[16] = {};
    get(object, number, nullptr, 0, &bytes);
    expect(bytes == attribute.bytes, "has another size", attribute.name);
    if (bytes != attribute.bytes) continue;
    get(object, number, value, bytes, &bytes);
    expect(std::memcmp(value, static_cast<const char*>(defaults) + attribute.offset, bytes) == 0,
           "begins with another value", attribute.name);
    expect(put(object, number, value, bytes) == CUBLAS_STATUS_SUCCESS, "cannot be set", attribute.name);
    expect(put(object, number, value, bytes + 1) == CUBLAS_STATUS_INVALID_VALUE, "takes another size", attribute.name);
    expect(put(object, number, nullptr, bytes) == CUBLAS_STATUS_INVALID_VALUE, "takes a null pointer", attribute.name);
  }
}

}  // namespace

int main() {
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 5, 7, 9);
  LtLayout first;
  first.type = CUDA_R_16BF;
  first.rows = 5;
  first.columns = 7;
  first.ld = 9;
  compare<cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t>(
      layout, lt_layout_attributes(), &first, cublasLtMatrixLayoutGetAttribute, cublasLtMatrixLayoutSetAttribute);
  cublasLtMatrixLayoutDestroy(layout);

  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
  LtDescription what;
  what.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  what.scale = CUDA_R_32F;
  compare<cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t>(
      description, lt_description_attributes(), &what, cublasLtMatmulDescGetAttribute, cublasLtMatmulDescSetAttribute);
  cublasLtMatmulDescDestroy(description);

  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const LtPreference preferences;
  compare<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t>(
      preference, lt_preference_attributes(), &preferences, cublasLtMatmulPreferenceGetAttribute,
      cublasLtMatmulPreferenceSetAttribute);
  cublasLtMatmulPreferenceDestroy(preference);

  std::printf("cublasLt %zu: %d properties of its attributes are the fake's, %d are not\n", cublasLtGetVersion(), right,
              wrong);
  return wrong == 0 ? 0 : 1;
}

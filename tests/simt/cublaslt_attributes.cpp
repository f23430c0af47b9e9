// The attributes of the library's objects that the fake knows: where it keeps them, and how many bytes each has.
// cublaslt_sizes.cpp holds the bytes against the library itself.
#include <cublasLt.h>

#include <cstddef>

#include "tests/simt/cublaslt_fake.h"

namespace mixtape::simt {

#define MIXTAPE_ATTRIBUTE(name, type, member) \
  { name, #name, offsetof(type, member), sizeof(type::member) }

const std::vector<LtAttribute>& lt_layout_attributes() {
  static const std::vector<LtAttribute> all = {
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, LtLayout, type),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, LtLayout, order),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, LtLayout, rows),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, LtLayout, columns),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, LtLayout, ld),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, LtLayout, batch),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, LtLayout, batch_stride),
  };
  return all;
}

const std::vector<LtAttribute>& lt_description_attributes() {
  static const std::vector<LtAttribute> all = {
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, LtDescription, compute),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, LtDescription, scale),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, LtDescription, pointer_mode),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, LtDescription, transposes_a),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, LtDescription, transposes_b),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, LtDescription, epilogue),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, LtDescription, bias),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, LtDescription, bias_stride),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, LtDescription, bias_type),
  };
  return all;
}

const std::vector<LtAttribute>& lt_preference_attributes() {
  static const std::vector<LtAttribute> all = {
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, LtPreference, workspace),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, LtPreference, alignment[0]),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, LtPreference, alignment[1]),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, LtPreference, alignment[2]),
      MIXTAPE_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, LtPreference, alignment[3]),
  };
  return all;
}

#undef MIXTAPE_ATTRIBUTE

}  // namespace mixtape::simt

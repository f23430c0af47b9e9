// A cublasLt for the device-on-CPU runner: the functions of the library's own header, naive products, and a sentence
// for every call that its documentation does not allow. This header has none of the library's words: the library's
// header and the runner's cuda_runtime.h do not go together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace mixtape::simt {

/// What a matrix layout holds.
struct LtLayout {
  uint32_t type = 0;
  int32_t order = 0;  ///< 0: by columns, 1: by rows
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;

  /// Element (row, column) of a batch, counted from the first.
  int64_t place(int64_t item, int64_t row, int64_t column) const {
    return item * batch_stride + (order == 0 ? row + column * ld : row * ld + column);
  }
  int64_t last() const { return place(batch - 1, static_cast<int64_t>(rows) - 1, static_cast<int64_t>(columns) - 1); }
  friend bool operator==(const LtLayout&, const LtLayout&) = default;
};

/// What a product is to do.
struct LtDescription {
  int32_t compute = 0, scale = 0, pointer_mode = 0;
  int32_t transposes_a = 0, transposes_b = 0;
  uint32_t epilogue = 1;  ///< none
  void* bias = nullptr;
  int64_t bias_stride = 0;
  int32_t bias_type = -1;  ///< that of D
};

/// What an algorithm must be good for.
struct LtPreference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  ///< of A, B, C, D
};

/// A problem, as heuristics see it: no operands, and of the bias the address alone.
struct LtProblem {
  LtDescription what;
  LtLayout a, b, c, d;

  bool has_bias() const;
  bool sums_a() const;
  bool sums_b() const;
  uint64_t k() const { return what.transposes_a == 0 ? a.columns : a.rows; }
  /// Elements of the vector beside the product.
  uint64_t vector_size() const { return sums_b() ? d.columns : d.rows; }
  /// The same for calls that one algorithm serves.
  uint64_t fingerprint() const;
};

/// One attribute: its number in the library, where it is kept, and how many bytes it has.
struct LtAttribute {
  int number;
  const char* name;
  size_t offset, bytes;
};
const std::vector<LtAttribute>& lt_layout_attributes();
const std::vector<LtAttribute>& lt_description_attributes();
const std::vector<LtAttribute>& lt_preference_attributes();

/// The operands of a call.
struct LtOperands {
  const void *alpha, *a, *b, *beta, *c;
  void *d, *workspace;
  size_t workspace_bytes;
};

/// An algorithm of the fake, inside the library's opaque words.
struct LtAlgorithm {
  uint64_t magic, id, fingerprint, workspace;
  uint32_t alignment[5];  ///< of A, B, C, D and the bias: what the heuristics were told
};
inline constexpr uint64_t lt_magic = 0x6d697874617065ull;
inline constexpr uint64_t lt_split_workspace = 64 * 1024;  ///< bytes that algorithm 0 needs: it adds up k in two halves

// In words what is wrong; empty when nothing is: with the layouts, with the combination of types and epilogue, with the
// operands of a call.
std::string lt_misuse(const LtProblem& problem);
std::string lt_unsupported(const LtProblem& problem);
std::string lt_misuse(const LtProblem& problem, const LtOperands& operands, const LtAlgorithm& algorithm);
/// The product, on memory that may be touched.
void lt_multiply(const LtProblem& problem, const LtOperands& operands, float alpha, float beta, uint64_t algorithm);

/// What tests choose and see; of this process.
struct LtControl {
  int algorithms = 3;         ///< that heuristics suggest at most
  bool refuses_sums = false;  ///< as if no algorithm had the epilogues of bias gradients
  int64_t products = 0, heuristics = 0;
  std::vector<uint64_t> ran;            ///< ids of algorithms, in the order of the calls
  std::vector<uint32_t> epilogues;      ///< of the calls, in their order
  std::set<const void*> workspaces;     ///< that calls were given
  std::vector<std::string> violations;  ///< every sentence that was said, but for what is not supported
};
LtControl& lt_control();
/// How many handles, layouts, descriptions and preferences live.
size_t lt_objects();

}  // namespace mixtape::simt

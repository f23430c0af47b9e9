#include "core/kernels/gemm_cublaslt.h"

#include <cublasLt.h>

#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/context.h"
#include "core/error.h"

namespace mixtape::kernels::device {
namespace {

using Extra = LtProduct::Extra;

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorKind::internal, "E-CUDA-GEMM",
       message(call, ": ", cublasLtGetStatusName(status), ": ", cublasLtGetStatusString(status)));
}

[[noreturn]] void fail_product(const LtProduct& p, const std::string& why) {
  const std::string path = scope_path(context().scope.get());
  fail(ErrorKind::internal, "E-CUDA-GEMM",
       message(p.op, ": the product of ", name_of(p.dtype), " [", p.batch, ", ", p.m, ", ", p.k, "] x [", p.batch, ", ",
               p.k, ", ", p.n, "] -> ", name_of(p.c_dtype), ": ", why, path.empty() ? "" : " (in " + path + ")"));
}
void check(cublasStatus_t status, const char* call, const LtProduct& p) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_product(p, message(call, ": ", cublasLtGetStatusName(status), ": ", cublasLtGetStatusString(status)));
}

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using Handle = std::unique_ptr<cublasLtContext, Destroy<cublasLtDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::f16 ? CUDA_R_16F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// The widest that a library could ask for. What the pointers have of it is part of a kind.
uint32_t alignment_of(const void* data) {
  uint32_t bytes = 256;
  while (reinterpret_cast<uintptr_t>(data) % bytes != 0) bytes /= 2;
  return bytes;
}

// ---- kinds: everything but the addresses, alpha, and how much the pointers are aligned beyond 256 ----

constexpr size_t most_kinds = 8192;  // about a KiB each

struct Key {
  int64_t numbers[11];
  bool operator==(const Key& other) const { return std::memcmp(numbers, other.numbers, sizeof numbers) == 0; }
};
struct HashKey {
  size_t operator()(const Key& key) const {
    size_t hash = 1469598103934665603ull;  // FNV-1a over the words
    for (int64_t number : key.numbers) hash = (hash ^ static_cast<size_t>(number)) * 1099511628211ull;
    return hash;
  }
};

Key key_of(const LtProduct& p) {
  int64_t packed = 0;
  for (int64_t part : {int64_t{p.a.transposed}, int64_t{p.b.transposed}, int64_t{p.accumulate}, int64_t{p.tf32}}) {
    packed = packed << 1 | part;
  }
  for (int64_t part : {static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.c_dtype), static_cast<int64_t>(p.extra)}) {
    packed = packed << 4 | part;
  }
  for (const void* data : {p.a.data, p.b.data, p.c.data, static_cast<void*>(p.vector)}) {
    packed = packed << 9 | alignment_of(data);
  }
  return {
      {p.m, p.n, p.k, p.batch, p.a.ld, p.b.ld, p.c.ld, p.a.batch_stride, p.b.batch_stride, p.c.batch_stride, packed}};
}

// ---- the library's words. Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ: its A is our b, its B our a, its rows are n.
// A row-major [r, s] and a column-major [s, r] are the same bytes with the same ld, so what is not transposed here is
// not transposed there either. ----

struct Problem {
  Description what;
  Layout a, b, c;  // in the library's order: A is our b
};

template <class Value>
void set(const Description& what, cublasLtMatmulDescAttributes_t attribute, const Value& value, const LtProduct& p) {
  check(cublasLtMatmulDescSetAttribute(what.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute",
        p);
}

Layout layout_of(const LtProduct::Matrix& matrix, DType dtype, int64_t rows, int64_t columns, const LtProduct& p) {
  cublasLtMatrixLayout_t made = nullptr;
  const int64_t stored_rows = matrix.transposed ? rows : columns, stored_columns = matrix.transposed ? columns : rows;
  check(cublasLtMatrixLayoutCreate(&made, type_of(dtype), static_cast<uint64_t>(stored_rows),
                                   static_cast<uint64_t>(stored_columns), matrix.ld),
        "cublasLtMatrixLayoutCreate", p);
  Layout layout(made);
  if (p.batch == 1) return layout;
  const auto count = static_cast<int32_t>(p.batch);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute", p);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                                         sizeof matrix.batch_stride),
        "cublasLtMatrixLayoutSetAttribute", p);
  return layout;
}

int32_t operation_of(const LtProduct::Matrix& matrix) { return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

uint32_t epilogue_of(Extra extra) {
  switch (extra) {
    case Extra::bias: return CUBLASLT_EPILOGUE_BIAS;      // along the library's rows: our n
    case Extra::a_sums: return CUBLASLT_EPILOGUE_BGRADB;  // of the library's B, along its columns: our m
    case Extra::b_sums: return CUBLASLT_EPILOGUE_BGRADA;  // of the library's A, along its rows: our n
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

Problem problem_of(const LtProduct& p) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate", p);
  Problem problem{Description(made), layout_of(p.b, p.dtype, p.k, p.n, p), layout_of(p.a, p.dtype, p.m, p.k, p),
                  layout_of(p.c, p.c_dtype, p.m, p.n, p)};
  set(problem.what, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(p.b), p);
  set(problem.what, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(p.a), p);
  if (p.extra == Extra::none) return problem;
  set(problem.what, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.extra), p);
  set(problem.what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(p.c_dtype)), p);
  set(problem.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.vector, p);  // its alignment is the heuristics' business
  return problem;
}

Preference preference_of(const LtProduct& p, const LtRoom& room) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate", p);
  Preference preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", p);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{room.bytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  return preference;
}

}  // namespace

struct CublasLt::Kind {
  Problem problem;
  std::vector<cublasLtMatmulAlgo_t> suggestions;  // the best first; one once chosen
};

struct CublasLt::Library {
  Handle handle;
  std::unordered_map<Key, Kind, HashKey> kinds;

  Library() {
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made), "cublasLtCreate");
    handle.reset(made);
  }

  std::vector<cublasLtMatmulAlgo_t> ask(const LtProduct& p, const Problem& problem, const LtRoom& room, int most) {
    const Preference preference = preference_of(p, room);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle.get(), problem.what.get(), problem.a.get(),
                                                                 problem.b.get(), problem.c.get(), problem.c.get(),
                                                                 preference.get(), most, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check(status, "cublasLtMatmulAlgoGetHeuristic", p);
    std::vector<cublasLtMatmulAlgo_t> usable;
    for (const auto& result : results) {
      if (count-- > 0 && result.state == CUBLAS_STATUS_SUCCESS) usable.push_back(result.algo);
    }
    return usable;
  }

  cublasStatus_t run(const LtProduct& p, const Problem& problem, const cublasLtMatmulAlgo_t& algorithm, void* target,
                     const LtRoom& room) {
    const float beta = p.accumulate ? 1.0f : 0.0f;
    return cublasLtMatmul(handle.get(), problem.what.get(), &p.alpha, p.b.data, problem.a.get(), p.a.data,
                          problem.b.get(), &beta, p.c.data, problem.c.get(), target, problem.c.get(), &algorithm,
                          room.workspace, room.bytes, room.stream);
  }
};

CublasLt::CublasLt() : library_(std::make_unique<Library>()) {}
CublasLt::~CublasLt() = default;

CublasLt::Kind& CublasLt::kind_of(const LtProduct& p, const LtRoom& room, int most) {
  const Key key = key_of(p);
  const auto known = library_->kinds.find(key);
  if (known != library_->kinds.end()) return known->second;
  if (library_->kinds.size() >= most_kinds) library_->kinds.clear();  // lengths that never come again
  Kind kind{problem_of(p), {}};
  kind.suggestions = library_->ask(p, kind.problem, room, most);
  return library_->kinds.emplace(key, std::move(kind)).first->second;
}

int CublasLt::suggestions(const LtProduct& p, const LtRoom& room, int most) {
  return static_cast<int>(kind_of(p, room, most).suggestions.size());
}

void CublasLt::choose(const LtProduct& p, const LtRoom& room, void* target, const GemmTimer& timer) {
  Kind& kind = kind_of(p, room, 1);
  if (p.extra != Extra::none) set(kind.problem.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.vector, p);
  const cublasLtMatmulAlgo_t* fastest = nullptr;
  double least = 0;
  for (const cublasLtMatmulAlgo_t& algorithm : kind.suggestions) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const double seconds =
        timer(room.stream, [&] { status = library_->run(p, kind.problem, algorithm, target, room); });
    if (status != CUBLAS_STATUS_SUCCESS || (fastest && seconds >= least)) continue;
    fastest = &algorithm;
    least = seconds;
  }
  if (fastest) kind.suggestions = {cublasLtMatmulAlgo_t(*fastest)};
}

void CublasLt::multiply(const LtProduct& p, const LtRoom& room) {
  const Kind& kind = kind_of(p, room, 1);
  if (kind.suggestions.empty()) fail_product(p, "cublasLt has no algorithm for it");
  if (p.extra != Extra::none) set(kind.problem.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.vector, p);
  check(library_->run(p, kind.problem, kind.suggestions.front(), p.c.data, room), "cublasLtMatmul", p);
}

}  // namespace mixtape::kernels::device

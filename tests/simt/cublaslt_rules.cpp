// What the library's documentation (cublasLt.h; cuBLAS 13.1, "cublasLtMatmul()") allows, as sentences about what it
// does not; and the product itself.
#include <cublasLt.h>

#include <climits>
#include <cstring>
#include <type_traits>

#include "core/half.h"
#include "tests/simt/cublaslt_fake.h"
#include "tests/simt/memory.h"
#include "tests/simt/runner.h"

namespace mixtape::simt {
namespace {

template <class... Pieces>
std::string say(const Pieces&... pieces) {
  std::string text;
  const auto append = [&](const auto& piece) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(piece)>>) {
      text += std::to_string(piece);
    } else {
      text += piece;
    }
  };
  (append(pieces), ...);
  return text;
}

size_t bytes_of(uint32_t type) {
  switch (type) {
    case CUDA_R_16F: return 2;
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F: return 4;
    default: return 0;
  }
}
const char* name_of(uint32_t type) {
  switch (type) {
    case CUDA_R_16F: return "f16";
    case CUDA_R_16BF: return "bf16";
    case CUDA_R_32F: return "f32";
    default: return "a type that the fake does not know";
  }
}

bool transposes(int32_t operation) { return operation != CUBLAS_OP_N; }

// ---- layouts ----

std::string wrong_layout(const std::string& name, const LtLayout& layout) {
  if (bytes_of(layout.type) == 0) return say(name, " has ", name_of(layout.type));
  if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW) {
    return say(name, " has an order of tiles, which the fake does not know");
  }
  if (layout.rows == 0 || layout.columns == 0) {
    return say(name, " is empty: ", layout.rows, " x ", layout.columns, "; what then happens is not documented");
  }
  if (layout.rows > INT_MAX || layout.columns > INT_MAX) return say(name, " has more rows or columns than an int32");
  const bool by_columns = layout.order == CUBLASLT_ORDER_COL;
  const uint64_t least = by_columns ? layout.rows : layout.columns;
  if (layout.ld < static_cast<int64_t>(least)) {
    return say(name, " has leading dimension ", layout.ld, ", less than its ", least,
               by_columns ? " rows" : " columns");
  }
  if (layout.batch < 1) return say(name, " has a batch of ", layout.batch);
  if (layout.batch_stride < 0) return say(name, " has batch stride ", layout.batch_stride);
  return {};
}

// Batches may lie between each other, as the heads of a sequence do, but no element may be written twice.
std::string shared_elements(const LtLayout& d) {
  if (d.batch == 1) return {};
  std::vector<bool> written(static_cast<size_t>(d.last()) + 1);
  for (int64_t item = 0; item < d.batch; ++item) {
    for (int64_t column = 0; column < static_cast<int64_t>(d.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(d.rows); ++row) {
        const auto at = static_cast<size_t>(d.place(item, row, column));
        if (written[at]) return say("batches of D share elements: batch stride ", d.batch_stride);
        written[at] = true;
      }
    }
  }
  return {};
}

std::string wrong_shapes(const LtProblem& p) {
  const bool ta = transposes(p.what.transposes_a), tb = transposes(p.what.transposes_b);
  const uint64_t m = ta ? p.a.columns : p.a.rows, inner = tb ? p.b.columns : p.b.rows;
  const uint64_t n = tb ? p.b.rows : p.b.columns;
  if (m != p.d.rows) return say("op(A) has ", m, " rows, D has ", p.d.rows);
  if (n != p.d.columns) return say("op(B) has ", n, " columns, D has ", p.d.columns);
  if (inner != p.k()) return say("op(A) has ", p.k(), " columns, op(B) has ", inner, " rows");
  LtLayout c = p.c;
  c.ld = p.d.ld;
  c.batch_stride = p.d.batch_stride;
  if (!(c == p.d)) return "C and D differ in more than their strides";
  for (const LtLayout* layout : {&p.a, &p.b}) {
    if (layout->batch != p.d.batch) return say("a batch of ", layout->batch, " beside one of ", p.d.batch);
  }
  return {};
}

}  // namespace

bool LtProblem::has_bias() const { return what.epilogue == CUBLASLT_EPILOGUE_BIAS; }
bool LtProblem::sums_a() const { return what.epilogue == CUBLASLT_EPILOGUE_BGRADA; }
bool LtProblem::sums_b() const { return what.epilogue == CUBLASLT_EPILOGUE_BGRADB; }

uint64_t LtProblem::fingerprint() const {
  uint64_t hash = 1469598103934665603ull;
  const auto mix = [&](auto value) { hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211ull; };
  for (const LtLayout* layout : {&a, &b, &c, &d}) {
    mix(layout->type), mix(layout->order), mix(layout->rows), mix(layout->columns), mix(layout->ld), mix(layout->batch);
    mix(layout->batch_stride);
  }
  mix(what.compute), mix(what.scale), mix(what.transposes_a), mix(what.transposes_b), mix(what.epilogue);
  mix(what.bias_type), mix(what.bias_stride);
  return hash;
}

std::string lt_misuse(const LtProblem& p) {
  const LtLayout* layouts[4] = {&p.a, &p.b, &p.c, &p.d};
  for (size_t i = 0; i < 4; ++i) {
    if (std::string wrong = wrong_layout(std::string(1, "ABCD"[i]), *layouts[i]); !wrong.empty()) return wrong;
  }
  if (std::string wrong = wrong_shapes(p); !wrong.empty()) return wrong;
  if (p.what.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return "the fake knows alpha and beta in host memory alone";
  const bool sums = p.sums_a() || p.sums_b();
  if ((p.has_bias() || sums) && p.what.bias_stride < 0) return say("the bias has batch stride ", p.what.bias_stride);
  if (sums && p.d.batch > 1 && p.what.bias_stride < static_cast<int64_t>(p.vector_size())) {
    return "batches write the same sums: set CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE";
  }
  return shared_elements(p.d);
}

std::string lt_unsupported(const LtProblem& p) {
  const uint32_t in = p.a.type, out = p.d.type;
  const std::string types = say(name_of(p.a.type), " x ", name_of(p.b.type), " -> ", name_of(out));
  if (p.a.type != p.b.type || (out != in && out != CUDA_R_32F)) return say("no products of ", types);
  if (p.what.scale != CUDA_R_32F) return "alpha and beta have another type than f32";
  const bool fast = p.what.compute == CUBLAS_COMPUTE_32F_FAST_TF32 || p.what.compute == CUBLAS_COMPUTE_32F_FAST_16F ||
                    p.what.compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  if (fast && in != CUDA_R_32F) return say("a fast compute type for f32 beside ", types);
  if (!fast && p.what.compute != CUBLAS_COMPUTE_32F && p.what.compute != CUBLAS_COMPUTE_32F_PEDANTIC) {
    return say("compute type ", p.what.compute, " beside ", types);
  }
  const bool sums = p.sums_a() || p.sums_b();
  if (p.what.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return {};
  if (!p.has_bias() && !sums) return say("epilogue ", p.what.epilogue, ", which the fake does not know");
  if (sums && lt_control().refuses_sums) return "no algorithm sums an operand here";
  if (p.d.order == CUBLASLT_ORDER_ROW) return "a bias beside a D in rows";
  const uint32_t type = p.what.bias_type == -1 ? out : static_cast<uint32_t>(p.what.bias_type);
  if (type != out) return say("a bias of ", name_of(type), " beside ", types, ": it must have the type of D");
  return {};
}

namespace {

// ---- operands ----

struct Range {
  const char* name;
  const void* from;
  size_t bytes;
  bool meets(const Range& other) const {
    const char *a = static_cast<const char*>(from), *b = static_cast<const char*>(other.from);
    return a < b + other.bytes && b < a + bytes;
  }
};

std::string wrong_place(const Range& range, size_t element, uint32_t alignment) {
  if (!range.from) return say(range.name, " is a null pointer");
  if (!in_arena(range.from)) return say(range.name, " is not in device memory");
  const auto address = reinterpret_cast<uintptr_t>(range.from);
  if (address % element != 0) return say(range.name, " is not aligned to its ", element, " bytes an element");
  if (address % alignment != 0) {
    return say(range.name, " is not aligned to the ", alignment, " bytes that the heuristics were told");
  }
  if (!on_device(range.from, range.bytes)) {
    return say(range.name, " reaches over ", range.bytes, " bytes, which do not lie in one allocation");
  }
  return {};
}

Range range_of(const char* name, const void* from, const LtLayout& layout) {
  return {name, from, static_cast<size_t>(layout.last() + 1) * bytes_of(layout.type)};
}

std::string wrong_workspace(const LtOperands& o, const LtAlgorithm& algorithm) {
  if (algorithm.workspace > o.workspace_bytes) {
    return say("the algorithm needs a workspace of ", algorithm.workspace, " bytes, not ", o.workspace_bytes);
  }
  if (o.workspace_bytes == 0) return {};
  return wrong_place({"the workspace", o.workspace, o.workspace_bytes}, 1, 256);
}

}  // namespace

std::string lt_misuse(const LtProblem& p, const LtOperands& o, const LtAlgorithm& algorithm) {
  if (algorithm.magic != lt_magic) return "the algorithm is none that heuristics suggested";
  if (algorithm.fingerprint != p.fingerprint()) return "the algorithm was suggested for another problem";
  for (const void* scalar : {o.alpha, o.beta}) {
    if (!scalar || in_arena(scalar)) return "alpha and beta must be in host memory";
  }
  const Range a = range_of("A", o.a, p.a), b = range_of("B", o.b, p.b), c = range_of("C", o.c, p.c),
              d = range_of("D", o.d, p.d), workspace{"the workspace", o.workspace, o.workspace_bytes};
  const LtLayout* layouts[4] = {&p.a, &p.b, &p.c, &p.d};
  const Range* ranges[4] = {&a, &b, &c, &d};
  for (size_t i = 0; i < 4; ++i) {
    const std::string wrong = wrong_place(*ranges[i], bytes_of(layouts[i]->type), algorithm.alignment[i]);
    if (!wrong.empty()) return wrong;
  }
  if (const std::string wrong = wrong_workspace(o, algorithm); !wrong.empty()) return wrong;
  if (d.meets(a) || d.meets(b)) return say("D lies over ", d.meets(a) ? "A" : "B");
  if (o.c == o.d ? !(p.c == p.d) : c.meets(d)) return "C lies over D with another layout";
  if (p.what.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    const size_t reach = static_cast<size_t>(p.d.batch - 1) * static_cast<size_t>(p.what.bias_stride) + p.vector_size();
    const Range bias{"the bias", p.what.bias, reach * bytes_of(p.d.type)};
    const std::string wrong = wrong_place(bias, bytes_of(p.d.type), algorithm.alignment[4]);
    if (!wrong.empty()) return wrong;
    if (bias.meets(d)) return "the bias lies over D";
  }
  for (const Range* range : ranges) {
    if (o.workspace_bytes > 0 && workspace.meets(*range)) return say("the workspace lies over ", range->name);
  }
  return {};
}

// ---- the product ----

namespace {

float load(const void* data, uint32_t type, int64_t at) {
  switch (type) {
    case CUDA_R_16F: return to_float(static_cast<const mixtape::half*>(data)[at]);
    case CUDA_R_16BF: return to_float(static_cast<const mixtape::bf16*>(data)[at]);
    default: return static_cast<const float*>(data)[at];
  }
}
void store(void* data, uint32_t type, int64_t at, float value) {
  switch (type) {
    case CUDA_R_16F: static_cast<mixtape::half*>(data)[at] = to_half(value); return;
    case CUDA_R_16BF: static_cast<mixtape::bf16*>(data)[at] = to_bf16(value); return;
    default: static_cast<float*>(data)[at] = value;
  }
}

struct Product {
  const LtProblem& p;
  const LtOperands& o;
  float a(int64_t item, int64_t row, int64_t i) const {
    const bool t = transposes(p.what.transposes_a);
    return load(o.a, p.a.type, t ? p.a.place(item, i, row) : p.a.place(item, row, i));
  }
  float b(int64_t item, int64_t i, int64_t column) const {
    const bool t = transposes(p.what.transposes_b);
    return load(o.b, p.b.type, t ? p.b.place(item, column, i) : p.b.place(item, i, column));
  }
  float sum(int64_t item, int64_t row, int64_t column, int64_t first, int64_t last) const {
    float total = 0;
    for (int64_t i = first; i < last; ++i) total += a(item, row, i) * b(item, i, column);
    return total;
  }
};

void add_up(const Product& product, int64_t item) {
  const LtProblem& p = product.p;
  const auto k = static_cast<int64_t>(p.k());
  for (int64_t at = 0; at < static_cast<int64_t>(p.vector_size()); ++at) {
    float total = 0;
    for (int64_t i = 0; i < k; ++i) total += p.sums_a() ? product.a(item, at, i) : product.b(item, i, at);
    store(p.what.bias, p.d.type, item * p.what.bias_stride + at, total);
  }
}

}  // namespace

void lt_multiply(const LtProblem& p, const LtOperands& o, float alpha, float beta, uint64_t algorithm) {
  const Product product{p, o};
  const auto k = static_cast<int64_t>(p.k());
  const int64_t half = algorithm == 0 ? k / 2 : k;
  if (algorithm == 0) std::memset(o.workspace, poison, lt_split_workspace);
  for (int64_t item = 0; item < p.d.batch; ++item) {
    if (p.sums_a() || p.sums_b()) add_up(product, item);
    for (int64_t column = 0; column < static_cast<int64_t>(p.d.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(p.d.rows); ++row) {
        float value = product.sum(item, row, column, 0, half);
        if (algorithm == 0) {
          static_cast<float*>(o.workspace)[0] = product.sum(item, row, column, half, k);
          value += static_cast<float*>(o.workspace)[0];
        }
        value *= alpha;
        if (beta != 0) value += beta * load(o.c, p.c.type, p.c.place(item, row, column));
        if (p.has_bias()) value += load(p.what.bias, p.d.type, item * p.what.bias_stride + row);
        store(o.d, p.d.type, p.d.place(item, row, column), value);
      }
    }
  }
}

}  // namespace mixtape::simt

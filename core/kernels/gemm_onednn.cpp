#include <dnnl.hpp>

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/kernels/gemm_engine.h"

namespace mixtape::kernels::engine {
namespace {

using dnnl::memory;

// A bf16 product by shape: creating one costs 0.3 ms of code generation, running a kept one a microsecond.
struct Key {
  int64_t numbers[4 + 3 + 12];  // batches, m, n, k; strides; c's dtype, bias, alpha, accumulate
  bool operator==(const Key& other) const { return std::memcmp(numbers, other.numbers, sizeof numbers) == 0; }
};
struct HashKey {
  size_t operator()(const Key& key) const {
    size_t hash = 1469598103934665603ull;  // FNV-1a over the words
    for (int64_t number : key.numbers) hash = (hash ^ static_cast<size_t>(number)) * 1099511628211ull;
    return hash;
  }
};
struct Kept {
  dnnl::matmul primitive;
  memory a, b, c, bias;
};

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& stream() {
  static dnnl::stream stream(cpu());
  return stream;
}

Key key_of(const LowProduct& p) {
  Key key{};
  int at = 0;
  for (int64_t number : {p.batch[0], p.batch[1], p.m, p.n, p.k}) key.numbers[at++] = number;
  for (const int64_t* strides : {p.a_stride, p.b_stride, p.c_stride}) {
    for (int i = 0; i < 4; ++i) key.numbers[at++] = strides[i];
  }
  uint32_t alpha;
  std::memcpy(&alpha, &p.alpha, sizeof alpha);
  key.numbers[at++] = static_cast<int64_t>(p.c_dtype) | int64_t{p.bias != nullptr} << 8 | int64_t{p.accumulate} << 9 |
                      int64_t{alpha} << 16;
  return key;
}

memory::desc describe(const LowProduct& p, int64_t rows, int64_t columns, const int64_t* stride,
                      memory::data_type type) {
  return {{p.batch[0], p.batch[1], rows, columns}, type, {stride[0], stride[1], stride[2], stride[3]}};
}

// Null when this CPU has only the reference implementation, which is slower than going through f32.
std::unique_ptr<Kept> create(const LowProduct& p) {
  const auto c_type = p.c_dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  const memory::desc a = describe(p, p.m, p.k, p.a_stride, memory::data_type::bf16);
  const memory::desc b = describe(p, p.k, p.n, p.b_stride, memory::data_type::bf16);
  const memory::desc c = describe(p, p.m, p.n, p.c_stride, c_type);
  const memory::desc bias({1, 1, 1, p.n}, memory::data_type::f32, memory::format_tag::abcd);
  dnnl::primitive_attr attributes;
  if (p.alpha != 1.0f) attributes.set_output_scales(0, {p.alpha});
  if (p.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  const dnnl::matmul::desc what = p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc chosen(what, attributes, cpu(), true);
  if (!chosen || std::strstr(chosen.impl_info_str(), "ref")) return nullptr;
  auto kept = std::make_unique<Kept>();
  kept->primitive = dnnl::matmul(chosen);
  kept->a = memory(a, cpu(), nullptr);
  kept->b = memory(b, cpu(), nullptr);
  kept->c = memory(c, cpu(), nullptr);
  if (p.bias) kept->bias = memory(bias, cpu(), nullptr);
  return kept;
}

}  // namespace

void multiply(const Product<float>& p) {
  const dnnl_status_t status = dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k,
                                          p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  if (status != dnnl_success) {
    fail(ErrorKind::internal, "E-GEMM",
         message("oneDNN sgemm failed with status ", static_cast<int>(status), " for m=", p.m, " n=", p.n, " k=", p.k,
                 " lda=", p.lda, " ldb=", p.ldb, " ldc=", p.ldc));
  }
}

bool multiply_bf16(const LowProduct& p) {
  static std::mutex mutex;
  static std::unordered_map<Key, std::unique_ptr<Kept>, HashKey> kept_by_shape;
  if (!native_bf16()) return false;
  const std::lock_guard lock(mutex);  // the kept memory objects take one caller's pointers at a time
  auto [place, fresh] = kept_by_shape.try_emplace(key_of(p));
  if (fresh) place->second = create(p);
  Kept* kept = place->second.get();
  if (!kept) return false;
  kept->a.set_data_handle(const_cast<void*>(p.a));
  kept->b.set_data_handle(const_cast<void*>(p.b));
  kept->c.set_data_handle(p.c);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, kept->a}, {DNNL_ARG_WEIGHTS, kept->b}, {DNNL_ARG_DST, kept->c}};
  if (p.bias) {
    kept->bias.set_data_handle(const_cast<float*>(p.bias));
    arguments.emplace(DNNL_ARG_BIAS, kept->bias);
  }
  kept->primitive.execute(stream(), arguments);
  stream().wait();
  return true;
}

const char* name() { return "onednn"; }

const char* version() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();  // of the library that was loaded, not of the headers
    return message(v->major, ".", v->minor, ".", v->patch);
  }();
  return text.c_str();
}

bool native_bf16() {
  static const bool native = [] {
    const auto isa = static_cast<int>(dnnl::get_effective_cpu_isa());
    return isa >= static_cast<int>(dnnl::cpu_isa::avx512_core) && isa != static_cast<int>(dnnl::cpu_isa::all)
               ? isa >= static_cast<int>(dnnl::cpu_isa::avx512_core_bf16)
               : false;
  }();
  return native;
}

}  // namespace mixtape::kernels::engine

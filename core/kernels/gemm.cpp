#include "core/kernels/gemm.h"

#include "core/device_module.h"
#include "core/error.h"
#include "core/kernels/basic.h"
#include "core/kernels/gemm_engine.h"
#include "core/kernels/gemm_layout.h"
#include "core/kernels/parallel.h"
#include "core/kernels/plan.h"
#include "core/storage.h"

namespace mixtape::kernels {
namespace {

using gemm_layout::Batched;
using gemm_layout::has_unit_stride;
using gemm_layout::is_row_major;
using gemm_layout::last_two;

// Scratch from the caching allocator, kept while a thread works through its products.
template <class M>
struct Room {
  Storage storage;
  M* get(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(M);
    if (storage.bytes() < bytes) storage = Storage(bytes, Device{});
    return static_cast<M*>(storage.data());
  }
};
template <class M>
struct Rooms {
  Room<M> a, b, c;
};

// A two-dimensional operand as M with a unit stride: in place, or copied to `room` in the orientation it has.
template <class M>
View operand(const View& v, Room<M>& room) {
  if (v.dtype == dtype_of<M> && has_unit_stride(v)) return v;
  View packed = v;
  packed.data = room.get(v.numel());
  packed.dtype = dtype_of<M>;
  const bool by_columns = v.strides[0] == 1 && v.strides[1] != 1;
  packed.strides = by_columns ? Strides{1, v.shape[0]} : Strides{v.shape[1], 1};
  copy(v, packed);
  return packed;
}

// One product of two-dimensional views.
template <class M>
void multiply_one(const View& a, const View& b, const View& c, const GemmOptions& options, Rooms<M>& rooms) {
  const View pa = operand(a, rooms.a), pb = operand(b, rooms.b);
  const bool direct = c.dtype == dtype_of<M> && is_row_major(c);
  View target = c;
  if (!direct) {
    target.data = rooms.c.get(c.numel());
    target.dtype = dtype_of<M>;
    target.strides = contiguous_strides(c.shape);
    if (options.accumulate) copy(c, target);
  }
  if (options.bias) {  // c starts as the bias: the product is then added to it, in M
    options.accumulate ? add_scaled(target, 1.0, options.bias.broadcast_to(c.shape), 1.0, target)
                       : copy(options.bias, target);
  }
  const bool a_transposed = !is_row_major(pa), b_transposed = !is_row_major(pb);
  engine::Product<M> p{c.shape[0],
                       c.shape[1],
                       a.shape[1],
                       pa.as<const M>(),
                       pa.strides[a_transposed],
                       a_transposed,
                       pb.as<const M>(),
                       pb.strides[b_transposed],
                       b_transposed,
                       target.as<M>(),
                       target.strides[0]};
  p.alpha = static_cast<M>(options.alpha);
  p.beta = options.bias || options.accumulate ? M(1) : M(0);
  engine::multiply(p);
  if (!direct) copy(target, c);
}

template <class M>
void multiply_through(const Batched& all, const GemmOptions& options) {
  const View views[3] = {all.c, all.a, all.b};
  const Plan batch = make_plan(all.c.shape, views, 3, (1u << (all.c.shape.rank() - 2)) - 1u);
  const int64_t count = batch.count();
  const int64_t work = count * all.c.shape[all.c.shape.rank() - 2] * all.c.shape.back() * all.a.shape.back();
  PerRange<Rooms<M>> all_rooms(count);
  parallel_for(count, count > 1 ? work : 0,
               [&](int64_t begin, int64_t end) {  // a single product shares its own threads
                 Rooms<M>& rooms = all_rooms.take();
                 for (int64_t item = begin; item < end; ++item) {
                   View part[3] = {last_two(all.c), last_two(all.a), last_two(all.b)};
                   for (int i = 0; i < 3; ++i) {
                     part[i].data = static_cast<char*>(part[i].data) + batch.offset(i, item) * size_of(part[i].dtype);
                   }
                   multiply_one<M>(part[1], part[2], part[0], options, rooms);
                 }
               });
}

bool multiply_natively(const Batched& all, const GemmOptions& options) {
  if (all.a.dtype != DType::bf16 || !engine::native_bf16()) return false;
  const View views[3] = {all.c, all.a, all.b};
  const int rank = all.c.shape.rank();
  const Plan batch = make_plan(all.c.shape, views, 3, (1u << (rank - 2)) - 1u);
  if (batch.rank > 2 || !has_unit_stride(last_two(all.a)) || !has_unit_stride(last_two(all.b)) ||
      (options.bias && !options.bias.contiguous())) {
    return false;
  }
  engine::LowProduct p{};
  p.batch[0] = batch.rank > 1 ? batch.size[0] : 1;
  p.batch[1] = batch.rank > 0 ? batch.size[batch.rank - 1] : 1;
  int64_t* strides[3] = {p.c_stride, p.a_stride, p.b_stride};
  for (int i = 0; i < 3; ++i) {
    const int64_t whole = views[i].shape[rank - 2] * views[i].shape[rank - 1];
    strides[i][0] = batch.rank > 1 ? batch.stride[i][0] : whole;
    strides[i][1] = batch.rank > 0 ? batch.stride[i][batch.rank - 1] : whole;
    if (strides[i][0] == 0 || strides[i][1] == 0) return false;  // oneDNN silently takes its reference for stride 0
    strides[i][2] = views[i].strides[rank - 2];
    strides[i][3] = views[i].strides[rank - 1];
  }
  p.m = all.c.shape[rank - 2];
  p.n = all.c.shape.back();
  p.k = all.a.shape.back();
  p.a = all.a.data;
  p.b = all.b.data;
  p.c = all.c.data;
  p.c_dtype = all.c.dtype;
  p.bias = options.bias ? options.bias.as<const float>() : nullptr;
  p.alpha = static_cast<float>(options.alpha);
  p.accumulate = options.accumulate;
  return engine::multiply_bf16(p);
}

}  // namespace

void gemm(const View& a, const View& b, const View& c, const GemmOptions& options) {
  gemm_layout::check(a, b, c, options, "gemm");
  if (c.numel() == 0) return;
  if (!on_cpu(a, b, c, options.bias)) return device_backend("gemm", {&c, &a, &b, &options.bias}).gemm(a, b, c, options);
  Batched all = gemm_layout::align(a, b, c);
  if (all.a.shape.back() == 0) {  // an empty sum
    if (!options.accumulate) fill(c, 0.0);
    if (options.bias) add_scaled(c, 1.0, options.bias.broadcast_to(c.shape), 1.0, c);
    return;
  }
  all = gemm_layout::merge(all);
  if (multiply_natively(all, options)) return;
  a.dtype == DType::f64 ? multiply_through<double>(all, options) : multiply_through<float>(all, options);
}

const char* gemm_engine() { return engine::name(); }
const char* gemm_engine_version() { return engine::version(); }
bool gemm_native_bf16() { return engine::native_bf16(); }

}  // namespace mixtape::kernels

// Compiled by nvcc, and by g++ for the device-on-CPU runner.
#include "core/kernels/gemm_cuda.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/kernels/gemm_cublaslt.h"
#include "core/kernels/gemm_layout.h"
#include "core/kernels/loops.h"

#include "core/kernels/gemm_plain.cuh"
#include "core/kernels/loops.cuh"

namespace mixtape::kernels::device {
namespace {

using gemm_layout::Batched;
using Extra = LtProduct::Extra;

constexpr size_t workspace_bytes = size_t{32} << 20;

// ---- what is shared by all products of the process ----

struct Shared {
  std::mutex mutex;  // the descriptions that the library reads take one caller's pointers at a time
  std::unique_ptr<CublasLt> library;
  std::map<Stream, void*> workspaces;  // products of one stream follow each other, those of two do not
  GemmTimer timer;
  int candidates = 1;

  LtRoom room(Stream stream) {
    void*& workspace = workspaces[stream];
    if (!workspace) check_cuda(cudaMalloc(&workspace, workspace_bytes), "workspace of matrix products");
    return {workspace, workspace_bytes, stream};
  }
  /// Null when the library has no way to do it.
  CublasLt* ready_for(const LtProduct& p, const LtRoom& room) {
    if (!library) library = std::make_unique<CublasLt>();
    return library->suggestions(p, room, candidates) > 0 ? library.get() : nullptr;
  }
};
// Never destroyed: at the end of a process CUDA may be gone before it.
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

bool supported(const LtProduct& p, Stream stream) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  return all.ready_for(p, all.room(stream)) != nullptr;
}

void run(const LtProduct& p, Stream stream) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  const LtRoom room = all.room(stream);
  CublasLt* library = all.ready_for(p, room);
  if (library && all.timer && library->suggestions(p, room, all.candidates) > 1) {
    const int64_t reach = (p.batch - 1) * p.c.batch_stride + (p.m - 1) * p.c.ld + p.n;
    const Scratch<char> target(reach * size_of(p.c_dtype), stream);
    library->choose(p, room, target.data(), all.timer);
  }
  all.library->multiply(p, room);
}

// ---- views that the library can read ----

// Memory of a view that was copied, until the work on it is enqueued.
using Copies = std::vector<std::unique_ptr<Scratch<char>>>;

View scratch_like(const View& v, DType dtype, Copies& copies, Stream stream) {
  View made = v;
  copies.push_back(std::make_unique<Scratch<char>>(v.numel() * size_of(dtype), stream));
  made.data = copies.back()->data();
  made.dtype = dtype;
  made.strides = contiguous_strides(v.shape);
  return made;
}

void copy(const View& in, const View& out, Stream stream) {
  const Operand operands[] = {out, in};
  map<Identity, 1>(Identity{}, operands, stream);
}

// An axis of size 1 is never walked: its stride is what a leading dimension would be.
View with_leading_dimension(View v) {
  const int row = v.shape.rank() - 2, column = row + 1;
  if (v.shape[row] == 1) v.strides[row] = v.strides[column] == 1 ? v.shape[column] : 1;
  if (v.shape[column] == 1) v.strides[column] = v.strides[row] == 1 && v.shape[row] != 1 ? v.shape[row] : 1;
  return v;
}

// The same for c, which is written in rows.
View with_rows(View v) {
  const int row = v.shape.rank() - 2, column = row + 1;
  if (v.shape[column] == 1) v.strides[column] = 1;
  if (v.shape[row] == 1) v.strides[row] = v.shape[column];
  return v;
}

// An operand whose matrices have a unit stride: in place, or copied, each batch that differs once.
View readable(const View& given, Copies& copies, Stream stream) {
  const View v = with_leading_dimension(given);
  if (gemm_layout::has_unit_stride(gemm_layout::last_two(v))) return v;
  View distinct = v;
  for (int axis = 0; axis + 2 < v.shape.rank(); ++axis) {
    if (v.strides[axis] == 0) distinct.shape[axis] = 1;
  }
  const View packed = scratch_like(distinct, v.dtype, copies, stream);
  copy(distinct, packed, stream);
  return with_leading_dimension(packed.broadcast_to(v.shape));
}

LtProduct::Matrix matrix_of(const View& v, int64_t batch_stride) {
  const View matrix = gemm_layout::last_two(v);
  const bool transposed = !gemm_layout::is_row_major(matrix);
  return {v.data, matrix.strides[transposed], batch_stride, transposed};
}

// ---- one call ----

struct Call {
  const GemmOptions& options;
  const GemmRequest& request;
  Batched all;
  Extra extra = Extra::none;
  View vector = {};  // the bias or the sums, when the library is to see to them
};

LtProduct product_of(const Call& call) {
  const View &a = call.all.a, &b = call.all.b, &c = call.all.c;
  const int rank = c.shape.rank();
  LtProduct p{};
  p.m = c.shape[rank - 2];
  p.n = c.shape.back();
  p.k = a.shape.back();
  p.batch = 1;
  p.a = matrix_of(a, 0);
  p.b = matrix_of(b, 0);
  p.c = matrix_of(c, 0);
  p.dtype = a.dtype;
  p.c_dtype = c.dtype;
  p.alpha = static_cast<float>(call.options.alpha);
  p.accumulate = call.options.accumulate;
  p.tf32 = call.request.tf32 && a.dtype == DType::f32;
  p.extra = call.extra;
  p.vector = call.vector.data;
  p.op = call.request.op;
  return p;
}

// The library walks one batch axis; what the others hold is as many calls.
void multiply(const Call& call) {
  const View views[3] = {call.all.c, call.all.a, call.all.b};
  const int rank = call.all.c.shape.rank();
  const Plan batch = make_plan(call.all.c.shape, views, 3, (1u << (rank - 2)) - 1u);
  LtProduct p = product_of(call);
  LtProduct::Matrix* matrices[3] = {&p.c, &p.a, &p.b};
  int widest = -1;
  for (int axis = 0; axis < batch.rank; ++axis) {
    if (widest < 0 || batch.size[axis] > batch.size[widest]) widest = axis;
  }
  if (widest >= 0) p.batch = batch.size[widest];
  Plan outer = batch;
  for (int i = 0; i < 3 && widest >= 0; ++i) {
    matrices[i]->batch_stride = batch.stride[i][widest];
    outer.stride[i][widest] = 0;
  }
  if (widest >= 0) outer.size[widest] = 1;
  for (int64_t item = 0; item < outer.count(); ++item) {
    for (int i = 0; i < 3; ++i) {
      matrices[i]->data = static_cast<char*>(views[i].data) + outer.offset(i, item) * size_of(views[i].dtype);
    }
    run(p, call.request.stream);
  }
}

struct Zero {
  template <class M>
  MIXTAPE_HD M operator()(M) const {
    return 0;
  }
};
struct Add {
  template <class M>
  MIXTAPE_HD M operator()(M a, M b) const {
    return a + b;
  }
};

// k = 0: nothing to sum.
void empty_sum(const View& c, const GemmOptions& options, Stream stream) {
  if (options.bias && options.accumulate) {
    const Operand operands[] = {c, c, options.bias};
    return map<Add, 2>(Add{}, operands, stream);
  }
  if (options.bias) return copy(options.bias, c, stream);
  if (options.accumulate) return;
  const Operand operands[] = {c, c};
  map<Zero, 1>(Zero{}, operands, stream);
}

// cublasLt takes a bias of the output's dtype alone. An f32 one beside a 16-bit c is added to products that are still
// in f32, which then are rounded once, as on the CPU; or it is rounded itself, where the caller said so.
void multiply_with_bias(Call call) {
  const View c = call.all.c, &bias = call.options.bias;
  const Stream stream = call.request.stream;
  const bool rounds = bias && c.dtype != bias.dtype && !call.request.low_bias;
  const bool direct = !rounds && gemm_layout::is_row_major(gemm_layout::last_two(c));
  Copies copies;
  call.all.a = readable(call.all.a, copies, stream);
  call.all.b = readable(call.all.b, copies, stream);
  if (!direct) {
    call.all.c = scratch_like(c, rounds ? bias.dtype : c.dtype, copies, stream);
    if (call.options.accumulate) copy(c, call.all.c, stream);
  }
  if (bias) {
    call.extra = Extra::bias;
    call.vector = bias;
    if (bias.strides[0] != 1 || bias.dtype != call.all.c.dtype) {
      call.vector = scratch_like(bias, call.all.c.dtype, copies, stream);
      copy(bias, call.vector, stream);
    }
  }
  multiply(call);
  if (!direct) copy(call.all.c, c, stream);
}

// Sums of an operand along k: out of the product where the library does that, else by a pass of our own.
void add_up(const View& operand, const View& sums, int axis_of_k, Stream stream) {
  View out = sums;
  out.shape.insert(axis_of_k, 1);
  out.strides.insert(axis_of_k, 1);
  const Operand operands[] = {out, operand};
  fold<Identity, 1>(Identity{}, operand.shape, operands, stream);
}

bool sums_by_the_library(Call& call, Extra extra, const View& sums) {
  const View& c = call.all.c;
  // What the library does to these sums when it scales or accumulates the product is nowhere said.
  if (!sums || call.extra != Extra::none || call.options.bias || call.options.accumulate || call.options.alpha != 1.0 ||
      c.dtype != sums.dtype || sums.strides[0] != 1 || !gemm_layout::is_row_major(c)) {
    return false;
  }
  Call trial = call;
  trial.extra = extra;
  trial.vector = sums;
  if (!supported(product_of(trial), call.request.stream)) return false;
  call.extra = extra;
  call.vector = sums;
  return true;
}

void multiply_with_sums(Call call) {
  const GemmRequest& request = call.request;
  const View a = call.all.a, b = call.all.b;
  Copies copies;
  call.all.a = readable(a, copies, request.stream);
  call.all.b = readable(b, copies, request.stream);
  const bool a_is_seen_to = sums_by_the_library(call, Extra::a_sums, request.a_sums);
  const bool b_is_seen_to = sums_by_the_library(call, Extra::b_sums, request.b_sums);
  if (request.a_sums && !a_is_seen_to) add_up(a, request.a_sums, 1, request.stream);
  if (request.b_sums && !b_is_seen_to) add_up(b, request.b_sums, 0, request.stream);
  call.extra == Extra::none ? multiply_with_bias(call) : multiply(call);
}

void multiply_f64(const Call& call) {
  const View &a = call.all.a, &b = call.all.b, &c = call.all.c, &bias = call.options.bias;
  const View views[3] = {c, a, b};
  const int row = c.shape.rank() - 2, column = row + 1;
  const Walk<3> batch(make_plan(c.shape, views, 3, (1u << row) - 1u));
  const PlainProduct<double> p{batch,
                               c.numel(),
                               c.shape[row],
                               c.shape[column],
                               a.shape[column],
                               c.as<double>(),
                               a.as<const double>(),
                               b.as<const double>(),
                               bias ? bias.as<const double>() : nullptr,
                               {c.strides[row], c.strides[column]},
                               {a.strides[row], a.strides[column]},
                               {b.strides[row], b.strides[column]},
                               bias ? bias.strides[0] : 0,
                               call.options.alpha,
                               call.options.accumulate};
  launch(plain_product_kernel<double>, grid_for(p.count, 256), 256, 0, call.request.stream, p);
}

void check(const View& a, const View& b, const View& c, const GemmOptions& options, const GemmRequest& request) {
  gemm_layout::check(a, b, c, options, request.op);
  for (const View* view : {&a, &b, &c, &options.bias, &request.a_sums, &request.b_sums}) {
    if (*view && view->device.is_cpu()) {
      fail(ErrorKind::internal, "E-DEVICE", message(request.op, ": a product on a GPU has an operand on the CPU"));
    }
  }
  const int rank = c.shape.rank();
  const auto fits = [&](const View& sums, int axis) {
    return !sums || (sums.dtype == DType::f32 && a.dtype != DType::f64 && rank == 2 && a.shape.rank() == 2 &&
                     b.shape.rank() == 2 && sums.shape == Shape{c.shape[axis]});
  };
  if (!fits(request.a_sums, rank - 2) || !fits(request.b_sums, rank - 1)) {
    fail(ErrorKind::internal, "E-GEMM",
         message(request.op, ": sums of a product's operand are f32 vectors [m] and [n], without batch axes, for ",
                 a.shape.str(), " x ", b.shape.str()));
  }
}

}  // namespace

void library_gemm(const View& a, const View& b, const View& c, const GemmOptions& options, const GemmRequest& request) {
  check(a, b, c, options, request);
  if (c.numel() == 0 || a.shape.back() == 0) {
    if (request.a_sums) add_up(a, request.a_sums, 1, request.stream);
    if (request.b_sums) add_up(b, request.b_sums, 0, request.stream);
    if (c.numel() == 0) return;
  }
  Call call{options, request, gemm_layout::align(a, b, c)};
  if (a.dtype == DType::f64) return multiply_f64(call);
  if (a.shape.back() == 0) return empty_sum(c, options, request.stream);
  call.all = gemm_layout::merge(call.all);
  call.all.c = with_rows(call.all.c);
  multiply_with_sums(std::move(call));
}

void tune_gemm(GemmTimer timer, int candidates) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.candidates = timer ? std::max(candidates, 1) : 1;
  all.timer = std::move(timer);
}

#if defined(__CUDACC__)
namespace {

struct Event {
  cudaEvent_t event = nullptr;
  Event() { check_cuda(cudaEventCreate(&event), "event"); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

double fastest_of_five(Stream stream, const std::function<void()>& run) {
  const Event begin, end;
  double least = 0;
  for (int i = 0; i < 6; ++i) {  // the first one loads the kernel
    check_cuda(cudaEventRecord(begin.event, stream), "event");
    run();
    check_cuda(cudaEventRecord(end.event, stream), "event");
    check_cuda(cudaEventSynchronize(end.event), "event");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event, end.event), "event");
    if (i == 1 || (i > 1 && milliseconds < least)) least = milliseconds;
  }
  return least / 1000;
}

}  // namespace

GemmTimer event_timer() { return fastest_of_five; }
#else
GemmTimer event_timer() { return nullptr; }
#endif

void release_gemm() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  check_cuda(cudaDeviceSynchronize(), "the end of matrix products");
  all.library.reset();
  for (const auto& [stream, workspace] : all.workspaces)
    check_cuda(cudaFree(workspace), "workspace of matrix products");
  all.workspaces.clear();
}

}  // namespace mixtape::kernels::device

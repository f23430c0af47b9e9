// Picking by an index on a GPU one element at a time: rows of any rank, dtype and layout, and single elements along an
// axis, with the sums that are their way back. Sums are taken in the order of the index.
#pragma once

#include "core/kernels/gather.h"
#include "core/kernels/loops.h"

#include "core/kernels/basic.cuh"
#include "core/kernels/sort.cuh"

namespace mixtape::kernels::device {

/// The indices in row-major order: in place where they lie so.
class IndexList {
 public:
  IndexList(const View& index, cudaStream_t stream)
      : size_(index.numel()), data_(index.as<const int64_t>()), room_(index.contiguous() ? 1 : size_, stream) {
    if (index.contiguous()) return;
    View packed = index;
    packed.data = room_.data();
    packed.strides = contiguous_strides(index.shape);
    copy(index, packed, stream);
    data_ = room_.data();
  }
  int64_t size() const { return size_; }
  const int64_t* data() const { return data_; }

 private:
  int64_t size_;
  const int64_t* data_;
  Scratch<int64_t> room_;
};

inline bool is_float_matrix(const View& v) { return v.shape.rank() == 2 && is_float(v.dtype) && v.dtype != DType::f64; }
inline View without_axis(View v, int axis) {
  v.shape.erase(axis);
  v.strides.erase(axis);
  return v;
}
/// What stands where an index names nothing: NaN, in integers 0.
inline uint64_t bits_of_nothing(DType dtype) { return is_float(dtype) ? ~uint64_t{0} : 0; }

/// An axis along which an index picks, and the walk over all others.
struct Axis {
  int64_t size, step;
};

/// out[i, j] = source[index[i], j]; out is [0] and source [1] of the walk over j.
template <class Unit>
__global__ void pick_rows_kernel(const Unit* source, Unit* out, const int64_t* index, Axis from, int64_t to_step,
                                 const __grid_constant__ Walk<2> rest, Divider inner, int64_t count, Unit nothing) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < count; item += step) {
    const int64_t i = inner.quotient(item), picked = index[i];
    int64_t at[2] = {};
    rest.add_offsets(item - i * inner.size, at);
    const bool there = picked >= 0 && picked < from.size;
    out[at[0] + i * to_step] = there ? source[at[1] + picked * from.step] : nothing;
  }
}

/// The rows of two tensors whose other axes agree, as a walk along these.
inline Walk<2> rest_of(const View& out, const View& in) {
  const View views[2] = {without_axis(out, 0), without_axis(in, 0)};
  return Walk<2>(make_plan(views[0].shape, views, 2));
}

/// gather_rows of any tensors; where the dtypes differ, by way of one that has source's.
inline void pick_rows(const View& source, const IndexList& index, const View& out, cudaStream_t stream) {
  const int64_t count = out.numel();
  if (source.dtype != out.dtype) {
    const Scratch<uint64_t> room(count, stream);
    View same = out;
    same.data = room.data();
    same.dtype = source.dtype;
    same.strides = contiguous_strides(out.shape);
    pick_rows(source, index, same, stream);
    return copy(same, out, stream);
  }
  for_unit(out.dtype, [&](auto unit) {
    using Unit = decltype(unit);
    launch(pick_rows_kernel<Unit>, grid_for(count, map_threads), map_threads, 0, stream, source.as<const Unit>(),
           out.as<Unit>(), index.data(), Axis{source.shape[0], source.strides[0]}, out.strides[0], rest_of(out, source),
           Divider(count / out.shape[0]), count, static_cast<Unit>(bits_of_nothing(out.dtype)));
  });
}

/// out[v, j] = the sum of in[i, j] over the segment of v, in chunks as the CPU adds them.
template <int = 0>
__global__ void sum_picked_kernel(const void* in, DType in_dtype, int64_t in_step, void* out, DType out_dtype,
                                  int64_t out_step, const __grid_constant__ Walk<2> rest, Divider inner, int64_t items,
                                  const uint32_t* keys, const uint32_t* order, int64_t count, int64_t chunk) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    const int64_t row = inner.quotient(item);
    int64_t at[2] = {};
    rest.add_offsets(item - row * inner.size, at);
    const int64_t begin = first_not_below(keys, count, static_cast<uint32_t>(row));
    const int64_t end = first_not_below(keys, count, static_cast<uint32_t>(row) + 1);
    float total = 0;
    for (int64_t first = begin; first < end; first += chunk) {
      float part = 0;
      for (int64_t i = first; i < end && i < first + chunk; ++i) {
        part += load(in, in_dtype, at[1] + order[i] * in_step);
      }
      total += part;
    }
    store(out, out_dtype, at[0] + row * out_step, total);
  }
}

inline void expect_no_f64(const View& in, const View& out, const char* what) {
  if (in.dtype != DType::f64 && out.dtype != DType::f64) return;
  fail(ErrorKind::internal, "E-DEVICE-DTYPE", message(what, ": a device sums in f32, got f64"));
}

inline void sum_picked_rows(const View& in, const SortedPairs& pairs, int64_t count, const View& out,
                            cudaStream_t stream) {
  expect_no_f64(in, out, "sum_rows");
  const int64_t items = out.numel();
  launch(sum_picked_kernel<>, grid_for(items, map_threads), map_threads, 0, stream, in.data, in.dtype, in.strides[0],
         out.data, out.dtype, out.strides[0], rest_of(out, in), Divider(items / out.shape[0]), items, pairs.keys(),
         pairs.values(), count, int64_t{256});
}

// ---- single elements along an axis; picked is [0], index [1] and the whole [2] of the walk over lines ----

inline Walk<3> lines_of(const View& picked, const View& index, const View& whole, int axis) {
  View lines[3] = {without_axis(picked, axis), without_axis(index, axis), without_axis(whole, axis)};
  lines[2].shape = lines[1].shape;
  return Walk<3>(make_plan(lines[1].shape, lines, 3));
}

template <class Unit>
__global__ void pick_elements_kernel(const Unit* source, Unit* out, const int64_t* index, Axis from, int64_t to_step,
                                     int64_t index_step, const __grid_constant__ Walk<3> lines, Divider length,
                                     int64_t count, Unit nothing) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < count; item += step) {
    const int64_t line = length.quotient(item), j = item - line * length.size;
    int64_t at[3] = {};
    lines.add_offsets(line, at);
    const int64_t picked = index[at[1] + j * index_step];
    const bool there = picked >= 0 && picked < from.size;
    out[at[0] + j * to_step] = there ? source[at[2] + picked * from.step] : nothing;
  }
}

/// As kernels::gather_elements.
inline void gather_elements(const View& source, const View& index, int axis, const View& out,
                            cudaStream_t stream = nullptr) {
  const int64_t count = out.numel();
  if (count == 0) return;
  for_unit(out.dtype, [&](auto unit) {
    using Unit = decltype(unit);
    launch(pick_elements_kernel<Unit>, grid_for(count, map_threads), map_threads, 0, stream, source.as<const Unit>(),
           out.as<Unit>(), index.as<const int64_t>(), Axis{source.shape[axis], source.strides[axis]}, out.strides[axis],
           index.strides[axis], lines_of(out, index, source, axis), Divider(index.shape[axis]), count,
           static_cast<Unit>(bits_of_nothing(out.dtype)));
  });
}

/// Key of an element: the place in its line that it adds to, all lines one after the other; beyond all: nowhere.
template <int = 0>
__global__ void element_keys_kernel(const int64_t* index, int64_t index_step, const __grid_constant__ Walk<3> lines,
                                    Divider length, int64_t count, int64_t size, uint32_t nowhere, uint32_t* keys,
                                    uint32_t* order) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item >= count) return;
  const int64_t line = length.quotient(item), j = item - line * length.size;
  int64_t at[3] = {};
  lines.add_offsets(line, at);
  const int64_t picked = index[at[1] + j * index_step];
  keys[item] = picked >= 0 && picked < size ? static_cast<uint32_t>(line * size + picked) : nowhere;
  order[item] = static_cast<uint32_t>(item);
}

/// The sums of those elements that the sort brought together, in their order: the CPU's.
template <int = 0>
__global__ void sum_elements_kernel(const void* in, DType in_dtype, int64_t in_step, void* out, DType out_dtype,
                                    Axis to, const __grid_constant__ Walk<3> lines, Divider length, Divider places,
                                    int64_t items, const uint32_t* keys, const uint32_t* order, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    const int64_t line = places.quotient(item), place = item - line * places.size;
    int64_t at[3] = {};
    lines.add_offsets(line, at);
    float total = 0;
    const uint32_t key = static_cast<uint32_t>(item);
    for (int64_t i = first_not_below(keys, count, key); i < count && keys[i] == key; ++i) {
      const int64_t j = order[i] - line * length.size;
      total += load(in, in_dtype, at[0] + j * in_step);
    }
    store(out, out_dtype, at[2] + place * to.step, total);
  }
}

/// As kernels::sum_elements; fewer than 2^32 places.
inline void sum_elements(const View& in, const View& index, int axis, const View& out, cudaStream_t stream = nullptr) {
  if (out.numel() == 0) return;
  expect_no_f64(in, out, "sum_elements");
  Shape covered = index.shape;
  covered[axis] = out.shape[axis];
  if (!(covered == out.shape) || in.numel() == 0) fill(out, 0.0, stream);
  const int64_t count = in.numel(), size = out.shape[axis], items = covered.numel();
  if (count == 0) return;
  const Walk<3> lines = lines_of(in, index, out, axis);
  const Divider length(index.shape[axis]);
  SortedPairs pairs(count, stream);
  launch(element_keys_kernel<>, static_cast<unsigned>((count + 255) / 256), 256, 0, stream, index.as<const int64_t>(),
         index.strides[axis], lines, length, count, size, static_cast<uint32_t>(items), pairs.keys(), pairs.values());
  pairs.sort(static_cast<uint32_t>(items));
  launch(sum_elements_kernel<>, grid_for(items, map_threads), map_threads, 0, stream, in.data, in.dtype,
         in.strides[axis], out.data, out.dtype, Axis{size, out.strides[axis]}, lines, length, Divider(size), items,
         pairs.keys(), pairs.values(), count);
}

}  // namespace mixtape::kernels::device

#include "core/kernels/gather.h"

#include <algorithm>
#include <vector>

#include "core/device_module.h"
#include "core/error.h"
#include "core/kernels/basic.h"
#include "core/kernels/blocks.h"
#include "core/kernels/layout.h"
#include "core/kernels/parallel.h"
#include "core/kernels/plan.h"

namespace mixtape::kernels {
namespace {

// The indices in row-major order: in place where they lie so.
class IndexList {
 public:
  explicit IndexList(const View& index) : size_(index.numel()), data_(index.as<const int64_t>()) {
    if (index.contiguous()) return;
    room_.resize(static_cast<size_t>(size_));
    View packed = index;
    packed.data = room_.data();
    packed.strides = contiguous_strides(index.shape);
    copy(index, packed);
    data_ = room_.data();
  }
  IndexList(const IndexList&) = delete;
  IndexList& operator=(const IndexList&) = delete;
  int64_t size() const { return size_; }
  int64_t operator[](int64_t i) const { return data_[i]; }

 private:
  int64_t size_;
  const int64_t* data_;
  std::vector<int64_t> room_;
};

View without_axis(View v, int axis) {
  v.shape.erase(axis);
  v.strides.erase(axis);
  return v;
}

// Calls f(Unit{}) with an unsigned type of the element's size: moving bits needs no more.
template <class F>
void for_bits(DType dtype, const F& f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

template <class Unit>
void move_block(const View& from, int64_t at, int64_t stride, const View& to, int64_t to_at, int64_t to_stride,
                int64_t n) {
  const Unit* x = from.as<const Unit>() + at;
  Unit* y = to.as<Unit>() + to_at;
  if (stride == 1 && to_stride == 1) {
    std::copy_n(x, n, y);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * to_stride] = x[i * stride];
  }
}

void convert_block(const View& from, int64_t at, int64_t stride, const View& to, int64_t to_at, int64_t to_stride,
                   int64_t n) {
  float buffer[block_size];
  store_any(load_any(from, at, stride, n, buffer), to, to_at, to_stride, n);
}

// The rows of two tensors, whose other axes agree, as blocks along one inner axis.
struct RowWalk {
  RowWalk(const View& a, const View& b, int64_t block) : size(block) {
    const View rows[2] = {without_axis(a, 0), without_axis(b, 0)};
    plan = make_plan(rows[0].shape, rows, 2);
    inner = plan.split_inner(stride, 2);
    per_line = (inner + size - 1) / size;
    blocks = plan.count() * per_line;
  }
  int64_t start(int64_t block) const { return block % per_line * size; }
  int64_t length(int64_t block) const { return std::min(size, inner - start(block)); }
  int64_t offset(int which, int64_t block) const {
    return plan.offset(which, block / per_line) + start(block) * stride[which];
  }

  Plan plan;
  int64_t size, inner = 0, per_line = 0, blocks = 0, stride[2] = {};
};

using MoveBlock = void (*)(const View&, int64_t, int64_t, const View&, int64_t, int64_t, int64_t);

}  // namespace

// Which input rows go to each output row, in their order: a counting sort.
struct TouchedRows::Sorted {
  Sorted(const IndexList& index, int64_t rows, int64_t skipped) : begin(static_cast<size_t>(rows + 1)) {
    for (int64_t i = 0; i < index.size(); ++i) begin[static_cast<size_t>(index[i])] += index[i] != skipped;
    int64_t sum = 0;
    for (int64_t v = 0; v <= rows; ++v) {
      const int64_t count = begin[static_cast<size_t>(v)];
      if (count > 0) touched.push_back(v);
      begin[static_cast<size_t>(v)] = sum;
      sum += count;
    }
    std::vector<int64_t> next = begin;
    order.resize(static_cast<size_t>(sum));
    for (int64_t i = 0; i < index.size(); ++i) {
      if (index[i] != skipped) order[static_cast<size_t>(next[static_cast<size_t>(index[i])]++)] = i;
    }
  }
  std::vector<int64_t> begin, order, touched;
};

namespace {

constexpr int64_t sum_columns = 64, sum_chunk = 256;  // chunks keep the rounding error at chunk + terms/chunk

template <class M>
void sum_segment(const View& in, const int64_t* rows, int64_t count, int64_t offset, int64_t stride, int64_t n,
                 M* total) {
  M part[sum_columns], buffer[sum_columns];
  std::fill_n(total, n, M(0));
  for (int64_t first = 0; first < count; first += sum_chunk) {
    std::fill_n(part, n, M(0));
    for (int64_t k = first; k < std::min(count, first + sum_chunk); ++k) {
      const M* x = load_any(in, rows[k] * in.strides[0] + offset, stride, n, buffer);
      for (int64_t j = 0; j < n; ++j) part[j] += x[j];
    }
    for (int64_t j = 0; j < n; ++j) total[j] += part[j];
  }
}

template <class M>
void sum_rows_as(const View& in, const TouchedRows::Sorted& segments, const View& out, bool only_touched) {
  const RowWalk walk(out, in, sum_columns);
  const int64_t touched = static_cast<int64_t>(segments.touched.size());
  // Blocks outermost: one frequent row, such as padding, is shared by all threads.
  const int64_t summed = static_cast<int64_t>(segments.order.size());
  parallel_for(walk.blocks * touched, summed * walk.inner * walk.plan.count(), [&](int64_t begin, int64_t end) {
    M total[sum_columns];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t block = item / touched, row = segments.touched[static_cast<size_t>(item % touched)];
      const int64_t first = segments.begin[static_cast<size_t>(row)];
      const int64_t count = segments.begin[static_cast<size_t>(row + 1)] - first, n = walk.length(block);
      sum_segment(in, segments.order.data() + first, count, walk.offset(1, block), walk.stride[1], n, total);
      const int64_t place = only_touched ? item % touched : row;
      store_any<M>(total, out, place * out.strides[0] + walk.offset(0, block), walk.stride[0], n);
    }
  });
}

void sum_segments(const View& in, const TouchedRows::Sorted& segments, const View& out, bool only_touched) {
  if (in.numel() == 0 || out.numel() == 0) return;
  const bool f64 = in.dtype == DType::f64 || out.dtype == DType::f64;
  f64 ? sum_rows_as<double>(in, segments, out, only_touched) : sum_rows_as<float>(in, segments, out, only_touched);
}

// Lines along `axis` of operands that are read over the extents of `index`.
struct LineWalk {
  LineWalk(const View& picked, const View& index, const View& whole, int axis) {
    View lines[3] = {without_axis(picked, axis), without_axis(index, axis), without_axis(whole, axis)};
    lines[2].shape = lines[1].shape;
    plan = make_plan(lines[1].shape, lines, 3);
    count = plan.count();
    const View* views[3] = {&picked, &index, &whole};
    for (int k = 0; k < 3; ++k) stride[k] = views[k]->strides[axis];
    n = index.shape[axis];
  }
  Plan plan;
  int64_t count = 0, n = 0, stride[3] = {};
};

template <class M>
void sum_elements_as(const View& in, const View& index, int axis, const View& out) {
  const LineWalk walk(in, index, out, axis);
  const int64_t length = out.shape[axis];
  parallel_for(walk.count, walk.count * length, [&](int64_t begin, int64_t end) {
    std::vector<M> sums(static_cast<size_t>(length));
    for (int64_t line = begin; line < end; ++line) {
      std::fill(sums.begin(), sums.end(), M(0));
      const int64_t* places = index.as<const int64_t>() + walk.plan.offset(1, line);
      M buffer[block_size];
      for (int64_t start = 0; start < walk.n; start += block_size) {
        const int64_t n = std::min(block_size, walk.n - start);
        const M* x = load_any(in, walk.plan.offset(0, line) + start * walk.stride[0], walk.stride[0], n, buffer);
        for (int64_t j = 0; j < n; ++j) sums[static_cast<size_t>(places[(start + j) * walk.stride[1]])] += x[j];
      }
      store_any<M>(sums.data(), out, walk.plan.offset(2, line), walk.stride[2], length);
    }
  });
}

}  // namespace

void check_indices(const View& index, int64_t size, std::string_view op) {
  if (!on_cpu(index)) return;
  const IndexList list(index);
  for (int64_t i = 0; i < list.size(); ++i) {
    if (list[i] >= 0 && list[i] < size) continue;
    Dims at = index.shape;
    for (int64_t axis = at.rank() - 1, rest = i; axis >= 0; --axis) {
      at[static_cast<int>(axis)] = rest % index.shape[static_cast<int>(axis)];
      rest /= index.shape[static_cast<int>(axis)];
    }
    fail(ErrorKind::internal, "E-INDEX",
         message(op, ": index ", list[i], " at ", at.str(), " is outside [0, ", size, ")"));
  }
}

void gather_rows(const View& source, const View& index, const View& out) {
  if (out.numel() == 0) return;
  if (!on_cpu(out, source, index)) {
    return device_backend("gather_rows", {&out, &source, &index}).gather_rows(source, index, out);
  }
  const IndexList list(index);
  const RowWalk walk(out, source, block_size);
  MoveBlock move = convert_block;
  if (source.dtype == out.dtype) for_bits(out.dtype, [&](auto unit) { move = move_block<decltype(unit)>; });
  parallel_for(list.size() * walk.blocks, out.numel(), [&](int64_t begin, int64_t end) {
    int64_t i = begin / walk.blocks, block = begin % walk.blocks, computed = -1, from = 0, to = 0, n = 0;
    for (int64_t item = begin; item < end; ++item) {
      if (block != computed) {  // divisions would cost more than a short row
        to = walk.offset(0, block);
        from = walk.offset(1, block);
        n = walk.length(block);
        computed = block;
      }
      move(source, list[i] * source.strides[0] + from, walk.stride[1], out, i * out.strides[0] + to, walk.stride[0], n);
      if (++block == walk.blocks) ++i, block = 0;
    }
  });
}

void sum_rows(const View& in, const View& index, const View& out, int64_t skipped) {
  if (!on_cpu(out, in, index)) {
    return device_backend("sum_rows", {&out, &in, &index}).sum_rows(in, index, out, skipped);
  }
  fill(out, 0.0);
  sum_segments(in, TouchedRows::Sorted(IndexList(index), out.shape[0], skipped), out, false);
}

TouchedRows::TouchedRows(const View& index, int64_t size, int64_t skipped)
    : sorted_(new Sorted(IndexList(index), size, skipped)) {}
TouchedRows::~TouchedRows() = default;
const std::vector<int64_t>& TouchedRows::rows() const { return sorted_->touched; }
void TouchedRows::sum(const View& in, const View& out) const { sum_segments(in, *sorted_, out, true); }

void gather_elements(const View& source, const View& index, int axis, const View& out) {
  if (out.numel() == 0) return;
  if (!on_cpu(out, source, index)) {
    return device_backend("gather_elements", {&out, &source, &index}).gather_elements(source, index, axis, out);
  }
  const LineWalk walk(out, index, source, axis);
  for_bits(out.dtype, [&](auto unit) {
    using Unit = decltype(unit);
    parallel_for(walk.count, out.numel(), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        Unit* y = out.as<Unit>() + walk.plan.offset(0, line);
        const int64_t* places = index.as<const int64_t>() + walk.plan.offset(1, line);
        const Unit* x = source.as<const Unit>() + walk.plan.offset(2, line);
        for (int64_t j = 0; j < walk.n; ++j) y[j * walk.stride[0]] = x[places[j * walk.stride[1]] * walk.stride[2]];
      }
    });
  });
}

void sum_elements(const View& in, const View& index, int axis, const View& out) {
  if (!on_cpu(out, in, index)) {
    return device_backend("sum_elements", {&out, &in, &index}).sum_elements(in, index, axis, out);
  }
  Shape covered = index.shape;
  covered[axis] = out.shape[axis];
  if (!(covered == out.shape) || in.numel() == 0) fill(out, 0.0);
  if (in.numel() == 0) return;
  const bool f64 = in.dtype == DType::f64 || out.dtype == DType::f64;
  f64 ? sum_elements_as<double>(in, index, axis, out) : sum_elements_as<float>(in, index, axis, out);
}

}  // namespace mixtape::kernels

#include "core/kernels/loops.h"

#include <algorithm>
#include <vector>

#include "core/kernels/blocks.h"
#include "core/kernels/parallel.h"
#include "core/kernels/plan.h"
#include "core/kernels/random.h"

namespace mixtape::kernels::detail {
namespace {

constexpr int64_t fold_chunk = 256, fold_piece = 64;  // terms and blocks that are added up together

bool any_f64(const Operand* operands, int count) {
  return std::any_of(operands, operands + count, [](const Operand& o) {
    const View& values = o.picks ? o.table : o.view;
    return values && values.dtype == DType::f64;
  });
}

void collect_views(const Operand* operands, int count, View* views) {
  if (count > max_operands) fail(ErrorKind::internal, "E-KERNEL", "a loop has too many operands");
  for (int k = 0; k < count; ++k) {
    if (!operands[k].view.device.is_cpu()) {
      fail(ErrorKind::internal, "E-DEVICE-KERNEL", "a loop that was compiled for the CPU got a device's tensor");
    }
  }
  for (int k = 0; k < count; ++k) views[k] = operands[k].view;
}

template <class M>
M* random_block(const RngCoordinates& at, int64_t element, int64_t n, M* buffer) {
  uint16_t draws[block_size];
  for (int64_t start = 0; start < n; start += block_size) {
    const int64_t count = std::min(block_size, n - start);
    random16_run(at, static_cast<uint64_t>(element + start), count, draws);
    for (int64_t i = 0; i < count; ++i) buffer[start + i] = static_cast<M>(draws[i]);
  }
  return buffer;
}

// Room for one block of each operand.
template <class M, int64_t size>
struct Buffers {
  M room[max_operands][size];
};

template <class M>
void map_as(const BlockFormula& formula, BlockFunction<M> run, const Operand* operands, int count) {
  View views[max_operands];
  collect_views(operands, count, views);
  Plan plan = make_plan(views[0].shape, views, count);
  int64_t stride[max_operands];
  const int64_t inner = plan.split_inner(stride, count), outer = plan.count();
  if (inner == 0 || outer == 0) return;
  const int64_t blocks = (inner + block_size - 1) / block_size;
  parallel_for(outer * blocks, outer * inner, [&](int64_t begin, int64_t end) {
    Buffers<M, block_size> buffers;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / blocks, start = item % blocks * block_size, n = std::min(block_size, inner - start);
      const M* in[max_operands];
      for (int k = 1; k < count; ++k) {
        M* buffer = buffers.room[k];
        in[k - 1] = operands[k].random
                        ? random_block(operands[k].draw, row * inner + start, n, buffer)
                        : load_any(views[k], plan.offset(k, row) + start * stride[k], stride[k], n, buffer);
      }
      const int64_t at = plan.offset(0, row) + start * stride[0];
      M* result = target_any(views[0], at, stride[0], buffers.room[0]);
      run(formula.f, n, result, in);
      store_any<M>(result, views[0], at, stride[0], n);
    }
  });
}

// Bit i: the output keeps axis i of the full shape.
uint32_t kept_axes(const Shape& full, const Shape& out) {
  uint32_t keep = 0;
  const int missing = full.rank() - out.rank();
  for (int axis = missing; axis < full.rank(); ++axis) {
    if (out[axis - missing] == full[axis]) keep |= 1u << axis;
  }
  return keep;
}

template <class M>
struct FoldWalk {
  const BlockFormula& formula;
  BlockFunction<M> run;
  View views[max_operands];
  int count;
  Plan kept, reduced;

  // The formula over one block: position `item` of the kept axes and `row` of the reduced ones, `start` along the
  // inner.
  void evaluate(int64_t item, int64_t row, int64_t start, const int64_t* stride, int64_t n, M* result,
                M (*buffers)[block_size]) const {
    const M* in[max_operands];
    for (int k = 1; k < count; ++k) {
      const int64_t at = kept.offset(k, item) + reduced.offset(k, row) + start * stride[k];
      in[k - 1] = load_any(views[k], at, stride[k], n, buffers[k]);
    }
    run(formula.f, n, result, in);
  }

  // The innermost axis is summed. A sum of many terms is cut into fixed pieces, added in their order: threads can share
  // even a single sum, and its bits do not depend on how many there are.
  void along_rows() {
    int64_t stride[max_operands];
    const int64_t inner = reduced.split_inner(stride, count), blocks = (inner + block_size - 1) / block_size;
    const int64_t items = kept.count(), terms = reduced.count() * blocks;
    const int64_t pieces = std::max<int64_t>(1, (terms + fold_piece - 1) / fold_piece);
    std::vector<M> parts(static_cast<size_t>(pieces > 1 ? items * pieces : 0));
    parallel_for(items * pieces, items * inner * reduced.count(), [&](int64_t begin, int64_t end) {
      Buffers<M, block_size> buffers;
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece % pieces * fold_piece, last = std::min(terms, first + fold_piece);
        M total = 0;
        for (int64_t term = first; term < last; ++term) {
          const int64_t start = term % blocks * block_size, n = std::min(block_size, inner - start);
          M* values = buffers.room[0];
          evaluate(piece / pieces, term / blocks, start, stride, n, values, buffers.room);
          total += lane_sum<M>(n, [&](int64_t i) { return values[i]; });
        }
        if (pieces > 1)
          parts[static_cast<size_t>(piece)] = total;
        else
          store_any<M>(&total, views[0], kept.offset(0, piece), 1, 1);
      }
    });
    for (int64_t item = 0; pieces > 1 && item < items; ++item) {
      const M* own = parts.data() + item * pieces;
      const M total = lane_sum<M>(pieces, [&](int64_t i) { return own[i]; });
      store_any<M>(&total, views[0], kept.offset(0, item), 1, 1);
    }
  }

  // The innermost axis is kept: the walk of a bias gradient. Terms are added in chunks, which keeps the rounding error
  // at chunk + terms/chunk, and which threads share.
  void along_columns() {
    int64_t stride[max_operands];
    const int64_t inner = kept.split_inner(stride, count), outer = kept.count(), terms = reduced.count();
    const int64_t blocks = (inner + block_size - 1) / block_size, width = std::min(inner, block_size);
    const int64_t chunks = std::max<int64_t>(1, (terms + fold_chunk - 1) / fold_chunk);
    std::vector<M> parts(static_cast<size_t>(chunks > 1 ? outer * blocks * chunks * width : 0));
    const auto store = [&](int64_t item, const M* total) {
      const int64_t start = item % blocks * block_size;
      store_any<M>(total, views[0], kept.offset(0, item / blocks) + start * stride[0], stride[0],
                   std::min(block_size, inner - start));
    };
    parallel_for(outer * blocks * chunks, outer * inner * terms, [&](int64_t begin, int64_t end) {
      Buffers<M, block_size> buffers;
      M own[block_size];
      for (int64_t work = begin; work < end; ++work) {
        const int64_t item = work / chunks, start = item % blocks * block_size, n = std::min(block_size, inner - start);
        const int64_t first = work % chunks * fold_chunk, last = std::min(terms, first + fold_chunk);
        M *part = chunks > 1 ? parts.data() + work * width : own, *values = buffers.room[0];
        std::fill_n(part, n, M(0));
        for (int64_t term = first; term < last; ++term) {
          evaluate(item / blocks, term, start, stride, n, values, buffers.room);
          for (int64_t j = 0; j < n; ++j) part[j] += values[j];
        }
        if (chunks == 1) store(item, part);
      }
    });
    for (int64_t item = 0; chunks > 1 && item < outer * blocks; ++item) {
      M* total = parts.data() + item * chunks * width;
      for (int64_t chunk = 1; chunk < chunks; ++chunk) {
        for (int64_t j = 0; j < width; ++j) total[j] += total[chunk * width + j];
      }
      store(item, total);
    }
  }
};

template <class M>
void fold_as(const BlockFormula& formula, BlockFunction<M> run, const Shape& full_shape, const Operand* operands,
             int count) {
  FoldWalk<M> walk{formula, run, {}, count, {}, {}};
  collect_views(operands, count, walk.views);
  if (walk.views[0].numel() == 0) return;
  const uint32_t keep = kept_axes(full_shape, walk.views[0].shape);
  walk.kept = make_plan(full_shape, walk.views, count, keep);
  walk.reduced = make_plan(full_shape, walk.views, count, ~keep);
  int last = full_shape.rank() - 1;
  while (last >= 0 && full_shape[last] == 1) --last;
  const bool sums_innermost = last >= 0 && !(keep >> last & 1u);
  // A handful of columns (the gradient of a small head's bias) is walked one by one too, not a few elements at a time.
  const bool narrow = walk.kept.rank > 0 && walk.kept.size[walk.kept.rank - 1] < 8;
  sums_innermost || narrow ? walk.along_rows() : walk.along_columns();
}

// What a row formula gets: for each operand an array, in the tensor itself where it can be.
template <class M>
class RowWalk {
 public:
  RowWalk(const RowFormula& formula, RowFunction<M> function, const Shape& full_shape, const Operand* operands,
          int count)
      : formula_(formula),
        function_(function),
        operands_(operands),
        count_(count),
        n_(full_shape.rank() == 0 ? 1 : full_shape.back()) {
    collect_views(operands, count, views_);
    outer_ = make_plan(full_shape, views_, count, full_shape.rank() == 0 ? 0u : (1u << (full_shape.rank() - 1)) - 1u);
    for (int k = 0; k < count; ++k) {
      const bool random = operands[k].random, picks = operands[k].picks;
      values_[k] = picks ? operands[k].table : views_[k];
      const View& v = values_[k];
      const bool statistic = operands[k].is_statistic();
      length_[k] = statistic ? 1 : n_;
      stride_[k] = v && !statistic && !random ? v.strides.back() : 1;
      int64_t& room = operands[k].sums ? sum_room_ : room_;
      place_[k] = room;
      room += (length_[k] + 16) / 16 * 16;  // never nothing: an absent statistic is written even beside an empty row
    }
  }

  void run() {
    const int64_t rows = outer_.count(), work = rows * std::max<int64_t>(n_, 1);
    if (sum_room_ == 0) {
      return parallel_for(rows, work, [&](int64_t begin, int64_t end) { walk(begin, end, nullptr); });
    }
    const int64_t pieces = std::max<int64_t>(1, (rows + row_piece - 1) / row_piece);
    std::vector<M> parts(static_cast<size_t>(pieces * sum_room_));
    parallel_for(pieces, work, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        walk(piece * row_piece, std::min(rows, (piece + 1) * row_piece), parts.data() + piece * sum_room_);
      }
    });
    for (int k = 0; k < count_; ++k) {
      if (operands_[k].sums && views_[k]) add_up(k, pieces, parts.data() + place_[k]);
    }
  }

 private:
  // Rows of one range. `part`, when there are sums, holds those of this piece.
  void walk(int64_t begin, int64_t end, M* part) const {
    std::vector<M> scratch(static_cast<size_t>(room_));
    M* pointer[max_operands] = {};
    int64_t loaded[max_operands];  // where each read operand was taken from: rows that share one (a mask) load it once
    std::fill_n(loaded, count_, int64_t{-1});
    for (int64_t row = begin; row < end; ++row) {
      for (int k = 0; k < count_; ++k) {
        const Operand& operand = operands_[k];
        if (operand.sums) {
          pointer[k] = part + place_[k];
          continue;
        }
        M* buffer = scratch.data() + place_[k];
        int64_t at = outer_.offset(k, row);
        if (operand.random) {
          const int64_t drawn = views_[k] ? views_[k].template as<int64_t>()[at] : row;
          pointer[k] = random_block(operand.draw, drawn * n_, n_, buffer);
          continue;
        }
        if (operand.picks) at = views_[k].template as<int64_t>()[at] * values_[k].strides[0];
        if (operand.writes) {
          pointer[k] = views_[k] ? target_any(views_[k], at, stride_[k], buffer) : buffer;
        } else if (values_[k] && at != loaded[k]) {  // read only: row() hands it on, and formulas take it as const M*
          pointer[k] = const_cast<M*>(load_any(values_[k], at, stride_[k], length_[k], buffer));
          loaded[k] = at;
        }
      }
      function_(formula_.f, n_, row, pointer);
      for (int k = 0; k < count_; ++k) {
        if (operands_[k].writes && views_[k])
          store_any<M>(pointer[k], views_[k], outer_.offset(k, row), stride_[k], length_[k]);
      }
    }
  }

  void add_up(int k, int64_t pieces, M* total) const {
    for (int64_t piece = 1; piece < pieces; ++piece) {
      const M* next = total + piece * sum_room_;
      for (int64_t i = 0; i < n_; ++i) total[i] += next[i];
    }
    store_any<M>(total, views_[k], 0, stride_[k], n_);
  }

  static constexpr int64_t row_piece = 64;  // rows whose sums are taken together

  const RowFormula& formula_;
  RowFunction<M> function_;
  const Operand* operands_;
  int count_;
  int64_t n_, room_ = 0, sum_room_ = 0;              // of one row, and of the sums of one piece
  View views_[max_operands], values_[max_operands];  // where an operand picks: the index, and the table
  Plan outer_;
  int64_t length_[max_operands], stride_[max_operands], place_[max_operands];
};

}  // namespace

void run_map(const BlockFormula& formula, const Operand* operands, int count) {
  if (any_f64(operands, count)) return map_as(formula, formula.f64, operands, count);
  map_as(formula, formula.f32, operands, count);
}

void run_fold(const BlockFormula& formula, const Shape& full_shape, const Operand* operands, int count) {
  if (any_f64(operands, count)) return fold_as(formula, formula.f64, full_shape, operands, count);
  fold_as(formula, formula.f32, full_shape, operands, count);
}

void run_rows(const RowFormula& formula, const Shape& full_shape, const Operand* operands, int count) {
  if (any_f64(operands, count)) return RowWalk<double>(formula, formula.f64, full_shape, operands, count).run();
  RowWalk<float>(formula, formula.f32, full_shape, operands, count).run();
}

}  // namespace mixtape::kernels::detail

// The gradient of a table whose rows an op picked by their ids.
#pragma once

#include "autograd/backward.h"
#include "core/factory.h"
#include "core/kernels/gather.h"

namespace mixtape::ops {

/// Input `table` [V, H] of the op; dy [n, H], a row for each of the ids; the row `skipped` gets nothing. Summed in f32
/// (f64) in the order of the ids. Where the tape allows it and the ids cannot name every row, only the rows that they
/// name are made: a table of 30,522 is neither filled with zeros nor read again for a batch of 512 tokens.
inline Tensor table_gradient(autograd::Grads& g, int table, const View& ids, const View& dy, int64_t skipped = -1) {
  const Shape& whole = g.meta(table).shape;
  const DType dtype = wide(g.meta(table).dtype);
  if (ids.numel() >= whole[0] || !g.takes_rows(table)) {
    const Tensor all = empty(whole, dtype, dy.device);
    kernels::sum_rows(dy, ids, all.view(), skipped);
    return all;
  }
  const std::vector<int64_t> touched = kernels::touched_rows(ids, whole[0], skipped);
  const Tensor some = empty({std::ssize(touched), whole[1]}, dtype, dy.device);
  kernels::sum_touched_rows(dy, ids, whole[0], some.view(), skipped);
  g.give_rows(table, from_ints(touched, {std::ssize(touched)}));
  return some;
}

}  // namespace mixtape::ops

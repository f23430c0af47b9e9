// The gradient of a table whose rows an op picked by their ids.
#pragma once

#include "autograd/backward.h"
#include "core/factory.h"
#include "core/kernels/gather.h"

namespace mixtape::ops {

/// Input `table` [V, H] of the op; dy [n, H], a row for each of the ids; the row `skipped` gets nothing. Summed in f32
/// (f64) in the order of the ids. Where the tape allows it and the ids cannot name every row, only the rows that they
/// name are made: a table of 30,522 is neither filled with zeros nor read again for a batch of 512 tokens. On a device
/// all are made: how many there would be, the host would have to wait for.
inline Tensor table_gradient(autograd::Grads& g, int table, const View& ids, const View& dy, int64_t skipped = -1) {
  const Shape& whole = g.meta(table).shape;
  const DType dtype = wide(g.meta(table).dtype);
  if (!dy.device.is_cpu() || ids.numel() >= whole[0] || !g.takes_rows(table)) {
    const Tensor all = empty(whole, dtype, dy.device);
    kernels::sum_rows(dy, ids, all.view(), skipped);
    return all;
  }
  const kernels::TouchedRows touched(ids, whole[0], skipped);
  const int64_t count = std::ssize(touched.rows());
  const Tensor some = empty({count, whole[1]}, dtype, dy.device);
  touched.sum(dy, some.view());
  g.give_rows(table, from_ints(touched.rows(), {count}));
  return some;
}

}  // namespace mixtape::ops

// Row-major places as coordinates: the plain arithmetic that oracles of moving ops are written in.
#pragma once

#include "core/op.h"

namespace mixtape::ops {

/// The coordinates of the row-major place `index` in an array of `shape`.
inline Dims coordinates(const Shape& shape, size_t index) {
  Dims at = Dims::filled(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const size_t size = static_cast<size_t>(shape[axis]);
    at[axis] = static_cast<int64_t>(index % size);
    index /= size;
  }
  return at;
}

/// The row-major place of coordinates.
inline size_t place(const Shape& shape, const Dims& at) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) index = index * shape[axis] + at[axis];
  return static_cast<size_t>(index);
}

/// out[c] = in[source(c)] for all coordinates c of `shape`.
template <class F>
Array rearranged(const Array& in, const Shape& shape, const F& source) {
  Array out{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
  for (size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = in.values[place(in.shape, source(coordinates(shape, i)))];
  }
  return out;
}

/// `in` read in the shape `full` that it broadcasts to.
inline Array broadcast_array(const Array& in, const Shape& full) {
  return rearranged(in, full, [&](Dims at) {
    while (at.rank() > in.shape.rank()) at.erase(0);
    for (int axis = 0; axis < at.rank(); ++axis) at[axis] %= in.shape[axis];
    return at;
  });
}

}  // namespace mixtape::ops

// Making tensors, and getting their numbers out.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "core/tensor.h"

namespace mixtape {

Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});  ///< uninitialised
inline Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype(), x.device()); }
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {});
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
/// `count` of them end to end in memory, each with a storage of its own: kernels::joined() makes one view of them.
Tensors zeros_end_to_end(int count, const Shape& shape, DType dtype = DType::f32, Device device = {});
Tensor scalar(double value, DType dtype = DType::f32);  ///< rank 0
/// Copies `values` (row-major) into a tensor of `shape`, rounded once to `dtype`. Throws E-SHAPE on a wrong count.
Tensor from(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32);
Tensor from_ints(const std::vector<int64_t>& values, const Shape& shape);  ///< i64
Tensor from_bools(const std::vector<bool>& values, const Shape& shape);
/// All elements in row-major order, widened to double. Works for every dtype, layout and device.
std::vector<double> to_vector(const Tensor& tensor);
/// Standard normal × std + mean (Box and Muller, 1958), a pure function of the coordinates.
Tensor randn(const Shape& shape, const RngCoordinates& at, double std = 1.0, double mean = 0.0,
             DType dtype = DType::f32);
Tensor rand_uniform(const Shape& shape, const RngCoordinates& at, double low, double high, DType dtype = DType::f32);
/// A contiguous copy; never on the tape. `dtype` converts, rounding once.
Tensor copy_of(const Tensor& tensor, DType dtype);
inline Tensor copy_of(const Tensor& tensor) { return copy_of(tensor, tensor.dtype()); }
/// The tensor itself where it lies on `device`, else a contiguous copy there; never on the tape. Waits where it copies.
Tensor to(const Tensor& tensor, Device device);
/// The same for what the host hands over in every step and no op writes in place: no waiting, and the copy runs while
/// the device computes.
Tensor upload(const Tensor& tensor, Device device);
/// Writes `source` into `target`'s bytes (converting) and bumps its version: loading weights, never for users' maths.
void assign(const Tensor& target, const Tensor& source);

}  // namespace mixtape

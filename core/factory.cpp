#include "core/factory.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/device_module.h"
#include "core/kernels/basic.h"
#include "core/kernels/parallel.h"

namespace mixtape {
namespace {
void check_count(size_t count, const Shape& shape) {
  if (static_cast<int64_t>(count) != shape.numel()) {
    fail(ErrorKind::internal, "E-SHAPE", message("from: ", count, " values do not fill the shape ", shape.str()));
  }
}
}  // namespace

Tensor empty(const Shape& shape, DType dtype, Device device) {
  Storage storage(static_cast<size_t>(shape.numel() * size_of(dtype)), device);
  return Tensor(std::move(storage), Geometry{shape, contiguous_strides(shape), 0, dtype});
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  kernels::fill(out.view(), value);
  return out;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0.0, dtype, device); }

Tensors zeros_end_to_end(int count, const Shape& shape, DType dtype, Device device) {
  Shape whole = shape;
  whole.insert(0, count);
  const Tensor all = zeros(whole, dtype, device);
  const size_t bytes = static_cast<size_t>(shape.numel() * size_of(dtype));
  Tensors parts;
  for (int i = 0; i < count; ++i) {
    Storage part = all.storage().part(static_cast<size_t>(i) * bytes, bytes);
    parts.push_back(Tensor(std::move(part), {shape, contiguous_strides(shape), 0, dtype}));
  }
  return parts;
}

Tensor scalar(double value, DType dtype) { return full({}, value, dtype); }

Tensor from(const std::vector<double>& values, const Shape& shape, DType dtype) {
  check_count(values.size(), shape);
  Tensor wide_values = empty(shape, DType::f64);
  std::copy(values.begin(), values.end(), wide_values.data<double>());
  return dtype == DType::f64 ? wide_values : copy_of(wide_values, dtype);
}

Tensor from_ints(const std::vector<int64_t>& values, const Shape& shape) {
  check_count(values.size(), shape);
  Tensor out = empty(shape, DType::i64);
  std::copy(values.begin(), values.end(), out.data<int64_t>());
  return out;
}

Tensor from_bools(const std::vector<bool>& values, const Shape& shape) {
  check_count(values.size(), shape);
  Tensor out = empty(shape, DType::boolean);
  std::copy(values.begin(), values.end(), out.data<bool>());
  return out;
}

std::vector<double> to_vector(const Tensor& tensor) {
  if (!tensor.device().is_cpu()) return to_vector(to(tensor, {}));
  std::vector<double> values(static_cast<size_t>(tensor.numel()));
  View out = tensor.view();
  out.data = values.data();
  out.dtype = DType::f64;
  out.strides = contiguous_strides(out.shape);
  kernels::copy(tensor.view(), out);
  return values;
}

namespace {
// Four normals from one Philox block; element by element the same numbers however the range is cut.
template <class T>
void fill_normal(T* out, int64_t n, const RngCoordinates& at, double std, double mean) {
  const int64_t blocks = (n + 3) / 4;
  kernels::parallel_for(blocks, n, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const Philox bits = philox_block(at, static_cast<uint64_t>(block));
      double normal[4];
      for (int pair = 0; pair < 2; ++pair) {
        const double radius = std::sqrt(-2.0 * std::log((bits.word[2 * pair] + 0.5) * 0x1p-32));
        const double angle = 2.0 * std::numbers::pi * ((bits.word[2 * pair + 1] + 0.5) * 0x1p-32);
        normal[2 * pair] = radius * std::cos(angle);
        normal[2 * pair + 1] = radius * std::sin(angle);
      }
      for (int64_t i = 4 * block; i < std::min(n, 4 * block + 4); ++i)
        out[i] = static_cast<T>(mean + std * normal[i % 4]);
    }
  });
}
}  // namespace

Tensor randn(const Shape& shape, const RngCoordinates& at, double std, double mean, DType dtype) {
  Tensor out = empty(shape, dtype == DType::f32 ? DType::f32 : DType::f64);
  if (dtype == DType::f32) {
    fill_normal(out.data<float>(), out.numel(), at, std, mean);
    return out;
  }
  fill_normal(out.data<double>(), out.numel(), at, std, mean);
  return dtype == DType::f64 ? out : copy_of(out, dtype);
}

Tensor rand_uniform(const Shape& shape, const RngCoordinates& at, double low, double high, DType dtype) {
  Tensor out = empty(shape, DType::f64);
  double* values = out.data<double>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] = low + (high - low) * uniform32(at, static_cast<uint64_t>(i));
  return dtype == DType::f64 ? out : copy_of(out, dtype);
}

Tensor copy_of(const Tensor& tensor, DType dtype) {
  Tensor out = empty(tensor.shape(), dtype, tensor.device());
  kernels::copy(tensor.view(), out.view());
  return out;
}

Tensor to(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  const Tensor packed = tensor.contiguous() ? tensor : copy_of(tensor);
  const Tensor out = empty(packed.shape(), packed.dtype(), device);
  const size_t bytes = static_cast<size_t>(packed.numel() * size_of(packed.dtype()));
  DeviceBackend& backend = device_backend(device.is_cpu() ? tensor.device() : device);
  backend.copy_bytes(out.storage().data(), device, packed.view().data, tensor.device(), bytes);
  return out;
}

Tensor upload(const Tensor& tensor, Device device) {
  if (device.is_cpu() || tensor.device() == device) return to(tensor, device);
  const Tensor packed = tensor.contiguous() ? tensor : copy_of(tensor);
  const size_t bytes = static_cast<size_t>(packed.numel() * size_of(packed.dtype()));
  const Storage there = device_backend(device).upload(packed.view().data, bytes, device);
  return Tensor(there, {packed.shape(), packed.strides(), 0, packed.dtype()});
}

void assign(const Tensor& target, const Tensor& source) {
  if (!(target.shape() == source.shape())) {
    fail(ErrorKind::internal, "E-SHAPE",
         message("assign: the target has shape ", target.shape().str(), ", the source ", source.shape().str()));
  }
  kernels::copy(to(source, target.device()).view(), target.view());
  target.storage().bump_version();
}

}  // namespace mixtape

#include "core/tensor.h"

#include "core/device_module.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/kernels/gather.h"
#include "core/parameter.h"

namespace mixtape {

Tensor::Tensor(Storage storage, Geometry geometry)
    : impl_(std::make_shared<Impl>(Impl{std::move(storage), geometry, nullptr, 0, nullptr})) {}

View Tensor::view() const {
  const Impl& t = impl();
  View v;
  v.dtype = t.geometry.dtype;
  v.device = t.storage.device();
  v.shape = t.geometry.shape;
  v.strides = t.geometry.strides;
  v.data = static_cast<char*>(t.storage.data()) + t.geometry.offset * size_of(v.dtype);
  return v;
}

double Tensor::item() const {
  if (numel() != 1) {
    fail(ErrorKind::internal, "E-SHAPE", message("item: expected one element, got a tensor of shape ", shape().str()));
  }
  return to_vector(*this)[0];
}

Tensor& Tensor::set_requires_grad(bool on) {
  if (impl().node)
    fail(ErrorKind::internal, "E-TAPE", "requires_grad: this tensor is an op's result; detach() it first");
  if (!is_float(dtype())) fail_dtype(dtype(), "requires_grad");
  if (!on) impl().leaf.reset();
  if (on && !impl().leaf) impl().leaf = std::make_shared<Leaf>();
  return *this;
}

Leaf& Tensor::leaf() const {
  if (!impl().leaf)
    fail(ErrorKind::internal, "E-TAPE", "this tensor is no leaf of the tape: call set_requires_grad() on it");
  return *impl().leaf;
}

Tensor Tensor::grad() const {
  const Gradient& gradient = leaf().gradient;
  if (!gradient) return {};
  const Tensor raw = all_rows(gradient, shape());
  Tensor out = empty_like(raw);
  kernels::scale(raw.view(), gradient.size(), out.view());
  return out;
}

Tensor all_rows(const Gradient& gradient, const Shape& shape) {
  if (!gradient.rows) return gradient.raw;
  const Tensor whole = empty(shape, gradient.raw.dtype(), gradient.raw.device());
  kernels::sum_rows(gradient.raw.view(), gradient.rows.view(), whole.view());
  return whole;
}

void Tensor::store_as(DType dtype) const {
  Leaf& own = leaf();
  if (impl().geometry.dtype == dtype) return;
  const Tensor converted = copy_of(*this, dtype);
  own.gradient = {};
  own.shadow = {};
  impl().storage = converted.storage();
  impl().geometry = converted.geometry();
}

void Tensor::move_to(Device device) const {
  Impl& own = impl();
  if (own.node) fail(ErrorKind::internal, "E-TAPE", "move_to: this tensor is an op's result: copy it with to()");
  if (own.storage.device() == device) return;
  if (own.leaf) own.leaf->gradient = {}, own.leaf->shadow = {};
  const size_t bytes = static_cast<size_t>(numel() * size_of(dtype()));
  if (!contiguous() || own.storage.bytes() != bytes) {
    const Tensor moved = to(detach(), device);
    own.storage = moved.storage();
    own.geometry = moved.geometry();
    return;
  }
  Storage there = own.storage.twin(bytes, {}, device);
  const Device from = own.storage.device();
  device_backend(device.is_cpu() ? from : device).copy_bytes(there.data(), device, own.storage.data(), from, bytes);
  own.storage = std::move(there);
}

Tensor Tensor::detach() const { return Tensor(impl().storage, impl().geometry); }

void Tensor::set_node(std::shared_ptr<autograd::Node> node, int output_index) {
  impl().node = std::move(node);
  impl().output_index = output_index;
}

void Tensor::fail_absent() { fail(ErrorKind::internal, "E-TENSOR", "an absent tensor was used where one is needed"); }

void Tensor::check_type(DType wanted) const {
  if (!device().is_cpu()) {
    fail(ErrorKind::internal, "E-DEVICE-MIXED",
         message("data: the tensor lies on ", name_of(device()), ": copy it to the CPU with to()"));
  }
  if (dtype() != wanted) {
    fail(ErrorKind::internal, "E-DTYPE",
         message("data: the tensor is ", name_of(dtype()), ", it was read as ", name_of(wanted)));
  }
}

namespace {
Storage new_twin(const Tensor& parameter, DType dtype) {
  const size_t bytes = static_cast<size_t>(parameter.numel() * size_of(dtype));
  const bool whole = parameter.storage().bytes() == static_cast<size_t>(parameter.numel() * size_of(parameter.dtype()));
  return whole ? parameter.storage().twin(bytes, parameter.leaf().shadow.bytes) : Storage(bytes, parameter.device());
}
}  // namespace

bool shadow_is_fresh(const Tensor& parameter, DType dtype) {
  const Shadow& shadow = parameter.leaf().shadow;
  return shadow.bytes && shadow.dtype == dtype && shadow.version == parameter.storage().version();
}

Storage shadow_bytes(const Tensor& parameter, DType dtype) {
  Shadow& shadow = parameter.leaf().shadow;
  if (shadow_is_fresh(parameter, dtype)) return shadow.bytes;
  if (!shadow.bytes || shadow.dtype != dtype || shadow.bytes.use_count() > 1) {
    shadow.bytes = new_twin(parameter, dtype);
  }
  shadow.dtype = dtype;
  shadow.version = parameter.storage().version();
  const Geometry twin{parameter.shape(), contiguous_strides(parameter.shape()), 0, dtype};
  kernels::copy(parameter.view(), Tensor(shadow.bytes, twin).view());
  return shadow.bytes;
}

Storage writable_shadow(const Tensor& parameter) {
  Shadow& shadow = parameter.leaf().shadow;
  if (!shadow.bytes) return {};
  if (shadow.bytes.use_count() > 1) shadow.bytes = new_twin(parameter, shadow.dtype);
  return shadow.bytes;
}

void mark_shadow_fresh(const Tensor& parameter) { parameter.leaf().shadow.version = parameter.storage().version(); }

}  // namespace mixtape

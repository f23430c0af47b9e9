#include "ops/optest_case.h"

#include <algorithm>
#include <cmath>

#include "autograd/gradcheck.h"

namespace mixtape::optest {
namespace {

uint64_t hash_of(std::string_view text, uint64_t salt) {
  uint64_t hash = 1469598103934665603ull ^ salt;  // FNV-1a
  for (char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  return hash;
}

// The same values behind other strides: axes stored in reverse order, or every second element of a larger block.
Tensor relaid(const Tensor& t, Layout layout) {
  const int rank = t.rank();
  if (layout == Layout::contiguous || rank == 0) return t;
  Shape room = t.shape();
  Strides strides = t.strides();
  int64_t offset = 0;
  if (layout == Layout::reversed) {
    int64_t step = 1;
    for (int axis = 0; axis < rank; ++axis) {
      strides[axis] = step;
      step *= std::max<int64_t>(t.shape()[axis], 1);
    }
  } else {
    for (int axis = 0; axis < rank; ++axis) room[axis] = t.shape()[axis] * 2 + 1;
    strides = contiguous_strides(room);
    for (int axis = 0; axis < rank; ++axis) {
      offset += strides[axis];
      strides[axis] *= 2;
    }
  }
  const Tensor bytes = zeros(room, t.dtype());
  const Tensor out(bytes.storage(), {t.shape(), strides, offset, t.dtype()});
  assign(out, t);
  return out;
}

}  // namespace

Numbers Case::values(int i) const {
  const Arg& a = sample.args[static_cast<size_t>(i)];
  if (!a.values.empty() || a.absent) return a.values;
  RngCoordinates at;
  at.seed = hash_of(op.info->name, static_cast<uint64_t>(index * 16 + i));
  at.stream = rng_stream::test;
  Numbers out(static_cast<size_t>(a.shape.numel()));
  for (size_t k = 0; k < out.size(); ++k) out[k] = a.low + (a.high - a.low) * uniform32(at, k);
  return out;
}

DType Case::dtype_of_input(int i, DType data) const {
  const Arg& a = sample.args[static_cast<size_t>(i)];
  if (!is_float(a.dtype)) return a.dtype;
  return op.info->inputs[i].role == Role::parameter ? wide(data) : data;
}

Tensor Case::input(int i, DType data, Layout layout) const {
  const Arg& a = sample.args[static_cast<size_t>(i)];
  if (a.absent) return {};
  return relaid(from(values(i), a.shape, dtype_of_input(i, data)), layout);
}

Tensors Case::inputs(DType data) const {
  Tensors all;
  for (int i = 0; i < inputs_count(); ++i) all.push_back(input(i, data));
  return all;
}

bool Case::has_float_data() const {
  for (int i = 0; i < inputs_count(); ++i) {
    if (op.info->inputs[i].role == Role::data && !is_float(sample.args[static_cast<size_t>(i)].dtype)) return false;
  }
  return true;
}

Numbers flatten(const Tensors& tensors) {
  Numbers all;
  for (const Tensor& tensor : tensors) {
    const Numbers values = to_vector(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Tensors make_seeds(const Tensors& outputs) {
  Tensors seeds;
  RngCoordinates at;
  at.stream = rng_stream::test;
  for (const Tensor& output : outputs) {
    // Multiples of 1/64 in (-1, 1): the same numbers in every float dtype.
    Numbers values(static_cast<size_t>(output.numel()));
    for (size_t k = 0; k < values.size(); ++k) values[k] = std::round(126 * uniform32(at, k) - 63) / 64;
    ++at.draw;
    seeds.push_back(from(values, output.shape(), output.dtype()));
  }
  return seeds;
}

Tensors require_grads(const Case& c, Tensors in) {
  for (int i = 0; i < in.size(); ++i) {
    if (c.is_float_input(i)) in[i].set_requires_grad();
  }
  return in;
}

Numbers gradients(const Case& c, const Tensors& in, const Tensors& seeds) {
  Tensors leaves, wanted;
  for (int i = 0; i < in.size(); ++i) {
    leaves.push_back(c.is_float_input(i) ? in[i].detach().set_requires_grad() : in[i]);
    if (c.is_float_input(i)) wanted.push_back(leaves[i]);
  }
  const Tensors outputs = c.run(leaves);
  const Tensors found = autograd::grad(outputs, wanted, {}, seeds.empty() ? make_seeds(outputs) : seeds);
  Numbers all;
  for (int i = 0; i < found.size(); ++i) {
    const Numbers values = found[i] ? to_vector(found[i]) : Numbers(static_cast<size_t>(wanted[i].numel()));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Jacobian differences(const Case& c, const Tensors& f64_inputs, const std::function<Numbers(const Tensors&)>& f,
                     bool richardson) {
  Jacobian result;
  for (int i = 0; i < f64_inputs.size(); ++i) {
    if (!c.is_float_input(i)) continue;
    const Numbers base = to_vector(f64_inputs[i]);
    for (size_t k = 0; k < base.size(); ++k) {
      result.x.push_back(base[k]);
      if (c.perturbs(i)) {
        result.column.push_back(autograd::difference(f, f64_inputs, i, static_cast<int64_t>(k), richardson));
      } else {
        const size_t outputs = result.column.empty() ? f(f64_inputs).size() : result.column[0].size();
        result.column.emplace_back(outputs);
      }
    }
  }
  result.outputs = result.column.empty() ? 0 : result.column[0].size();
  return result;
}

Jacobian jacobian(const Case& c, const Tensors& f64_inputs) {
  return differences(
      c, f64_inputs, [&](const Tensors& in) { return flatten(c.run(in)); }, true);
}

}  // namespace mixtape::optest

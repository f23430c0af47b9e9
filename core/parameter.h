// What only leaves of the tape have: a gradient pair, a 16-bit shadow and a name.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"

namespace mixtape {

/// A parameter, or a part of a state, under the name that it has in a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

/// The true gradient is raw × multiplier × factor. `raw` may share bytes with another leaf's and is never written in
/// place, nor is `factor`.
struct Gradient {
  Tensor raw;               ///< f32 (f64 for f64 leaves); absent: no gradient
  double multiplier = 1.0;  ///< 1/scale after a scaled sweep, times what clipping decided; those that the host knows
  Tensor rows = {};         ///< i64, ascending: `raw` holds these rows of the whole, all others are 0; absent: all rows
  Tensor factor = {};       ///< one f64 on the gradient's device, which alone knows it; absent: 1
  /// multiplier × factor. Waits for a device.
  double size() const { return factor ? multiplier * factor.item() : multiplier; }
  explicit operator bool() const { return static_cast<bool>(raw); }
};
/// `raw` of a leaf of this shape with all its rows.
Tensor all_rows(const Gradient& gradient, const Shape& shape);

/// The 16-bit twin of a parameter. Never observable as a tensor of its own: a `cast` aliases it while versions match.
struct Shadow {
  Storage bytes;
  DType dtype = DType::bf16;
  uint32_t version = 0;  ///< of the parameter's storage, at the time the bytes were written
};

struct Leaf {
  Gradient gradient;
  Shadow shadow;
  bool keeps_shadow = true;  ///< false: a cast to 16 bits is made anew each time
  std::string name;
};

/// Whether a cast to `dtype` would find its bytes ready.
bool shadow_is_fresh(const Tensor& parameter, DType dtype);
/// The parameter's twin in `dtype`, refreshed when stale. Writes in place only while nobody else holds the bytes.
Storage shadow_bytes(const Tensor& parameter, DType dtype);
/// Where a pass that updates the parameter may write the twin along: unique bytes of the current shadow's dtype, or an
/// absent storage when the parameter has none. Call mark_shadow_fresh after bumping the parameter's version.
Storage writable_shadow(const Tensor& parameter);
void mark_shadow_fresh(const Tensor& parameter);

}  // namespace mixtape

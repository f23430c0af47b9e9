// Host scalars beside tensors: they never promote, and one that its op's dtype cannot hold is reported.
#pragma once

#include <cmath>

#include "core/context.h"
#include "core/dtype.h"
#include "core/messages.h"

namespace mixtape::ops {

/// `value` as a tensor of `dtype` would hold it.
inline double stored_as(double value, DType dtype) {
  double stored = value;
  dispatch_float(dtype, "a scalar", [&](auto tag) {
    using T = typename decltype(tag)::type;
    stored = convert_to<double>(convert_to<T>(value));
  });
  return stored;
}

/// Reports, once for each op, place and value, a finite scalar other than 0 that becomes 0 or infinite in `dtype`:
/// "masked_fill: value -1e9 becomes -inf in f16 (in encoder.layer.0)".
inline void report_lost_scalar(std::string_view op, std::string_view what, double value, DType dtype) {
  const double stored = stored_as(value, dtype);
  if (value == 0 || !std::isfinite(value) || (stored != 0 && std::isfinite(stored))) return;
  const std::string path = scope_path(context().scope.get());
  report_once(message(op, ": ", what, " ", value, " becomes ",
                      stored == 0  ? "0"
                      : stored > 0 ? "inf"
                                   : "-inf",
                      " in ", name_of(dtype), path.empty() ? "" : " (in " + path + ")"));
}

}  // namespace mixtape::ops

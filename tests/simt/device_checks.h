// Tensors on the device-on-CPU runner, beside the rows of the op table.
#pragma once

#include "core/tensor.h"
#include "ops/optest.h"

namespace mixtape::simt_tests {

inline constexpr Device the_device{DeviceKind::cuda, 0};

/// The same bytes on the device, strides and all. An absent tensor stays one.
Tensor as_laid_on_device(const Tensor& tensor);

/// Copies, memory, leaves and their gradients, and what must be refused.
void check_device_tensors(optest::Report& report);

}  // namespace mixtape::simt_tests

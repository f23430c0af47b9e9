// gradcheck: backward against differences, for ops, models and losses of your own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mixtape::autograd {

/// How all numbers that f gives move with element k of input i (f64), by central differences; extrapolated after
/// Richardson they err by h⁴ (h is 1e-3 of the element, 1e-4 at least) and need four calls, else h² and two.
std::vector<double> difference(const std::function<std::vector<double>(const Tensors& inputs)>& f,
                               const Tensors& inputs, int i, int64_t k, bool extrapolate = true);

/// Compares d Σ c·f(inputs) with differences, c being fixed numbers that tell the outputs apart, at every element of
/// every f64 input; others are handed through. Returns "" where they agree to `tolerance`, relative to the largest
/// gradient of that input, else the first place that does not: "input 1, element 3: backward gives 0.5, differences
/// 0.75". Throws E-TAPE when no input is f64.
std::string gradcheck(const std::function<Tensors(const Tensors& inputs)>& f, const Tensors& inputs,
                      double tolerance = 1e-8);

}  // namespace mixtape::autograd

#include "optim/gradients.h"

#include <cmath>
#include <limits>

namespace mixtape::optim {
namespace {

// The optimizer multiplies in the gradient's own type: an overflow that only this product makes must be seen too.
bool stays_finite(const Gradient& gradient, double size, const kernels::Census& census) {
  const double largest =
      gradient.raw.dtype() == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const double factor = std::fabs(size);
  return census.finite && factor <= largest && census.max_abs * factor <= largest;
}

}  // namespace

GradientReader::GradientReader(NamedTensors parameters)
    : parameters_(std::move(parameters)), seen_(parameters_.size()) {}

GradientSurvey GradientReader::read() {
  GradientSurvey survey;
  double squares = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    Seen& seen = seen_[i];
    if (!tensor.is_leaf() || !tensor.leaf().gradient) {
      seen = {};
      continue;
    }
    const Gradient& gradient = tensor.leaf().gradient;
    const uint32_t version = gradient.raw.storage().version();
    if (!seen.raw || !seen.raw.same_as(gradient.raw) || seen.version != version) {
      seen = {gradient.raw, version, kernels::census(gradient.raw.view())};
    }
    ++survey.count;
    const double size = gradient.size();
    if (!stays_finite(gradient, size, seen.census)) survey.nonfinite.push_back(name);
    squares += seen.census.sum_of_squares * size * size;
  }
  survey.finite = survey.nonfinite.empty();
  survey.norm = std::sqrt(squares);
  return survey;
}

void GradientReader::forget() { seen_.assign(parameters_.size(), {}); }

}  // namespace mixtape::optim

#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "core/factory.h"

namespace mixtape::autograd {
namespace {

double weight_of(int64_t i) { return std::cos(static_cast<double>(i) + 1); }

double weighted_sum(const Tensors& outputs) {
  double sum = 0;
  int64_t i = 0;
  for (const Tensor& output : outputs) {
    for (const double value : to_vector(output)) sum += weight_of(i++) * value;
  }
  return sum;
}

Tensors weights_like(const Tensors& outputs) {
  Tensors seeds;
  int64_t i = 0;
  for (const Tensor& output : outputs) {
    std::vector<double> weights(static_cast<size_t>(output.numel()));
    for (double& weight : weights) weight = weight_of(i++);
    seeds.push_back(from(weights, output.shape(), output.dtype()));
  }
  return seeds;
}

}  // namespace

std::vector<double> difference(const std::function<std::vector<double>(const Tensors&)>& f, const Tensors& inputs,
                               int i, int64_t k, bool extrapolate) {
  Tensors moved = inputs;
  moved[i] = copy_of(inputs[i]);
  double& place = moved[i].data<double>()[k];
  const double base = place, step = 1e-3 * std::max(std::abs(base), 0.1);
  const auto central = [&](double h) {
    place = base + h;
    std::vector<double> slope = f(moved);
    place = base - h;
    const std::vector<double> low = f(moved);
    for (size_t o = 0; o < slope.size(); ++o) {
      // An output that stays infinite (the logarithm of a hidden place) does not move.
      slope[o] = slope[o] == low[o] ? 0 : (slope[o] - low[o]) / (2 * h);
    }
    return slope;
  };
  std::vector<double> slope = central(step);
  if (!extrapolate) return slope;
  const std::vector<double> finer = central(step / 2);
  for (size_t o = 0; o < slope.size(); ++o) slope[o] = (4 * finer[o] - slope[o]) / 3;
  return slope;
}

std::string gradcheck(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, double tolerance) {
  Tensors leaves, wanted;
  Small<int, 4> numbers;  // of the inputs that are wanted
  for (int i = 0; i < inputs.size(); ++i) {
    const bool checked = inputs[i] && inputs[i].dtype() == DType::f64;
    leaves.push_back(checked ? copy_of(inputs[i]).set_requires_grad() : inputs[i]);
    if (!checked) continue;
    wanted.push_back(leaves[i]);
    numbers.push_back(i);
  }
  if (wanted.empty()) fail(ErrorKind::internal, "E-TAPE", "gradcheck: no input is f64, and f32 is too coarse for it");
  const Tensors outputs = f(leaves);
  const Tensors found = grad(outputs, wanted, {}, weights_like(outputs));
  const auto value = [&](const Tensors& in) { return std::vector<double>{weighted_sum(f(in))}; };
  for (int w = 0; w < wanted.size(); ++w) {
    const std::vector<double> got =
        found[w] ? to_vector(found[w]) : std::vector<double>(static_cast<size_t>(wanted[w].numel()));
    double largest = 1;
    for (const double g : got) largest = std::max(largest, std::abs(g));
    for (int64_t k = 0; k < wanted[w].numel(); ++k) {
      const double want = difference(value, inputs, numbers[w], k)[0], is = got[static_cast<size_t>(k)];
      if (std::abs(is - want) <= tolerance * largest) continue;  // NaN does not
      return message("input ", numbers[w], ", element ", k, ": backward gives ", is, ", differences ", want);
    }
  }
  return "";
}

}  // namespace mixtape::autograd

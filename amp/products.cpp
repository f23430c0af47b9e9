#include "amp/products.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "core/factory.h"

namespace mixtape::amp {
namespace {

double count(const Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Of each text its queries times its keys: what scores and contexts cost a column.
double seen_pairs(const CallEvent& event) {
  const std::vector<double> offsets = to_vector(event.in[3]);
  const bool one_query = !(event.in[0].shape() == event.in[1].shape());
  double pairs = 0;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const double keys = offsets[i + 1] - offsets[i];
    pairs += keys * (one_query ? 1 : keys);
  }
  return pairs;
}

constexpr std::string_view summing[] = {"batched_matmul",
                                        "bce_with_logits",
                                        "binary_cross_entropy",
                                        "cross_entropy",
                                        "cumsum",
                                        "layer_norm",
                                        "linear",
                                        "log_softmax",
                                        "logsumexp",
                                        "masked_log_softmax",
                                        "masked_softmax",
                                        "matmul",
                                        "mean",
                                        "mse",
                                        "nll",
                                        "norm",
                                        "softmax",
                                        "sum",
                                        "sum_to",
                                        "var"};

}  // namespace

bool sums(const OpSchema& op) {
  const auto absorbed = absorbed_rows(op);
  if (!absorbed.empty())
    return std::any_of(absorbed.begin(), absorbed.end(), [](const OpSchema* row) { return sums(*row); });
  return std::find(std::begin(summing), std::end(summing), op.info->name) != std::end(summing);
}

Products products_of(const CallEvent& event) {
  const std::string_view op = event.op.info->name;
  if (op == "attention") {  // scores and contexts; then scores again, and two products for each of these two
    const double forward = 4 * seen_pairs(event) * static_cast<double>(event.in[1].size(1));
    return {forward, 2.5 * forward};
  }
  double forward = 0;
  if (op == "linear") forward = 2 * count(event.in[0]) * static_cast<double>(event.in[1].size(0));
  if (op == "joint_linear") forward = 2 * count(event.in[0]) * static_cast<double>(event.out[0].size(-1));
  if (op == "matmul" || op == "batched_matmul") {
    forward = 2 * count(event.out[0]) * static_cast<double>(event.in[0].size(-1));
  }
  if (op == "feed_forward") {
    forward = 2 * (count(event.in[0]) + count(event.out[0])) * static_cast<double>(event.in[1].size(0));
  }
  return {forward, 2 * forward};
}

}  // namespace mixtape::amp

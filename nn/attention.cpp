#include "nn/attention.h"

#include <cmath>

namespace mixtape::nn {
namespace {
int64_t checked_head_size(int64_t width, int64_t heads) {
  if (heads > 0 && width % heads == 0) return width / heads;
  fail(ErrorKind::config, "E-MODEL-CONFIG",
       message("hidden_size ", width, " is not a multiple of num_attention_heads ", heads));
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, double dropout)
    : heads_(heads),
      head_size_(checked_head_size(width, heads)),
      query_(width, width),
      key_(width, width),
      value_(width, width),
      output_(width, width),
      dropout_(dropout) {
  add_child("self.query", query_);
  add_child("self.key", key_);
  add_child("self.value", value_);
  add_child("self.dropout", dropout_);
  add_child("output.dense", output_);
}

// [batch, seq, width] read as [batch, seq, heads, head_size] with its axes in `order`: a view, no copy.
Tensor MultiHeadAttention::heads_of(const Tensor& x, const Dims& order) const {
  return ops::permute(ops::reshape(x, {x.size(0), x.size(1), heads_, head_size_}), order);
}

Tensor MultiHeadAttention::forward(const Tensor& x, const Tensor& mask, bool train) const {
  const Scope scope = enter();
  const Tensor q = heads_of(query_.forward(x), {0, 2, 1, 3});  // [batch, heads, seq, head]
  const Tensor k = heads_of(key_.forward(x), {0, 2, 3, 1});    // [batch, heads, head, seq]
  const Tensor v = heads_of(value_.forward(x), {0, 2, 1, 3});  // [batch, heads, seq, head]
  const Tensor scores = ops::batched_matmul(q, k, 1.0 / std::sqrt(static_cast<double>(head_size_)));
  const Tensor weights = mask ? ops::masked_softmax(scores, mask) : ops::softmax(scores);  // [batch, heads, seq, seq]
  const Tensor context = ops::batched_matmul(dropout_.forward(weights, train), v);
  return output_.forward(ops::reshape(ops::permute(context, {0, 2, 1, 3}), x.shape()));
}

}  // namespace mixtape::nn

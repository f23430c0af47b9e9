#include "nn/attention.h"

namespace mixtape::nn {
namespace {
int64_t checked_heads(int64_t width, int64_t heads) {
  if (heads > 0 && width % heads == 0) return heads;
  fail(ErrorKind::config, "E-MODEL-CONFIG",
       message("hidden_size ", width, " is not a multiple of num_attention_heads ", heads));
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, double dropout)
    : MultiHeadAttention(checked_heads(width, heads), dropout, zeros_end_to_end(3, {width, width}),
                         zeros_end_to_end(3, {width}), width) {}

MultiHeadAttention::MultiHeadAttention(int64_t heads, double dropout, const Tensors& weights, const Tensors& biases,
                                       int64_t width)
    : heads_(heads),
      query_(weights[0], biases[0]),
      key_(weights[1], biases[1]),
      value_(weights[2], biases[2]),
      output_(width, width),
      dropout_(dropout) {
  add_child("self.query", query_);
  add_child("self.key", key_);
  add_child("self.value", value_);
  add_child("output.dense", output_);
}

Tensor MultiHeadAttention::forward(const Tensor& queries, const Tensor& x, const TokenLayout& layout,
                                   bool train) const {
  const Scope scope = enter();
  const Tensors qkv = project(queries, x);
  return output_.forward(ops::attention(qkv[0], qkv[1], qkv[2], layout.sequences, heads_, train ? dropout_ : 0.0));
}

Tensors MultiHeadAttention::project(const Tensor& queries, const Tensor& x) const {
  if (queries.same_as(x)) {
    const Scope scope("self.qkv");
    return Linear::joint(x, {&query_, &key_, &value_});
  }
  const Tensor q = query_.forward(queries);
  const Scope scope("self.kv");
  const Tensors kv = Linear::joint(x, {&key_, &value_});
  return {q, kv[0], kv[1]};
}

}  // namespace mixtape::nn

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
    : heads_(checked_heads(width, heads)),
      query_(width, width),
      key_(width, width),
      value_(width, width),
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
  const Tensor q = query_.forward(queries), k = key_.forward(x), v = value_.forward(x);
  return output_.forward(ops::attention(q, k, v, layout.sequences, heads_, train ? dropout_ : 0.0));
}

}  // namespace mixtape::nn

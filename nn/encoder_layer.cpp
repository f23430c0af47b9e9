#include "nn/encoder_layer.h"

namespace mixtape::nn {

TransformerEncoderLayer::TransformerEncoderLayer(const EncoderLayerConfig& c)
    : attention_(c.width, c.heads, c.attention_dropout),
      attention_norm_(c.width, c.layer_norm_eps),
      intermediate_(c.width, c.intermediate),
      output_(c.intermediate, c.width),
      output_norm_(c.width, c.layer_norm_eps),
      dropout_(c.dropout) {
  add_child("attention", attention_);
  add_child("attention.output.LayerNorm", attention_norm_);
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child("output.LayerNorm", output_norm_);
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const TokenLayout& layout, bool train) const {
  const Scope scope = enter();
  return forward(x, x, layout, layout.places, train);
}

Tensor TransformerEncoderLayer::forward_first(const Tensor& x, const TokenLayout& layout, bool train) const {
  const Scope scope = enter();
  return forward(ops::index_select(x, 0, layout.first_tokens), x, layout, layout.first_places, train);
}

Tensor TransformerEncoderLayer::forward(const Tensor& queries, const Tensor& x, const TokenLayout& layout,
                                        const Tensor& places, bool train) const {
  const double p = train ? dropout_ : 0.0;
  const Tensor attended = attention_.forward(queries, x, layout, train);
  const Tensor h = attention_norm_.forward_residual(attended, queries, p, places);
  const Tensor y = feed_forward(h, intermediate_, output_);
  return output_norm_.forward_residual(y, h, p, places);
}

}  // namespace mixtape::nn

#include "nn/encoder_layer.h"

namespace mixtape::nn {

TransformerEncoderLayer::TransformerEncoderLayer(const EncoderLayerConfig& c)
    : attention_(c.width, c.heads, c.attention_dropout),
      attention_norm_(c.width, c.layer_norm_eps),
      intermediate_(c.width, c.intermediate),
      output_(c.intermediate, c.width),
      output_norm_(c.width, c.layer_norm_eps),
      attention_dropout_(c.dropout),
      output_dropout_(c.dropout) {
  add_child("attention", attention_);
  add_child("attention.output.dropout", attention_dropout_);
  add_child("attention.output.LayerNorm", attention_norm_);
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child("output.dropout", output_dropout_);
  add_child("output.LayerNorm", output_norm_);
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const Tensor& mask, bool train) const {
  const Scope scope = enter();
  const Tensor attended = attention_dropout_.forward(attention_.forward(x, mask, train), train);
  const Tensor h = attention_norm_.forward(ops::add(attended, x));
  const Tensor expanded = ops::gelu(intermediate_.forward(h));  // [batch, seq, intermediate]
  const Tensor y = output_dropout_.forward(output_.forward(expanded), train);
  return output_norm_.forward(ops::add(y, h));
}

}  // namespace mixtape::nn

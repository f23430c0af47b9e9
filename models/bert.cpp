#include "models/bert.h"

#include "autograd/checkpoint.h"

namespace mixtape::models {

std::string fault_of(const BertConfig& c) {
  const auto fault = [](std::string_view key, auto value, const std::string& wanted) {
    return message(key, " = ", value, ": must be ", wanted);
  };
  const struct {
    std::string_view key;
    int64_t value;
  } sizes[] = {{"vocab_size", c.vocab_size},
               {"hidden_size", c.hidden_size},
               {"num_hidden_layers", c.num_hidden_layers},
               {"num_attention_heads", c.num_attention_heads},
               {"intermediate_size", c.intermediate_size},
               {"max_position_embeddings", c.max_position_embeddings},
               {"type_vocab_size", c.type_vocab_size}};
  for (const auto& [key, value] : sizes) {
    if (value < 1) return fault(key, value, ">= 1");
  }
  if (c.hidden_size % c.num_attention_heads != 0) {
    return fault("num_attention_heads", c.num_attention_heads, message("a divisor of hidden_size ", c.hidden_size));
  }
  if (!(c.layer_norm_eps >= 0)) return fault("layer_norm_eps", c.layer_norm_eps, ">= 0");
  const std::pair<std::string_view, double> probabilities[] = {
      {"hidden_dropout_prob", c.hidden_dropout_prob}, {"attention_probs_dropout_prob", c.attention_probs_dropout_prob}};
  for (const auto& [key, p] : probabilities) {
    if (!(p >= 0 && p < 1)) return fault(key, p, "in [0, 1)");
  }
  return "";
}

void check(const BertConfig& config) {
  const std::string fault = fault_of(config);
  if (!fault.empty()) fail(ErrorKind::config, "E-MODEL-CONFIG", "model.config." + fault);
}

namespace {

nn::TokenLayout layout_of(const BertInput& input) {
  const Device device = input.ids.device();
  if (input.offsets) return nn::to(nn::packed_layout(input.offsets, input.longest), device);
  const int64_t batch = input.ids.size(0), seq = input.ids.size(1);
  const Tensor& mask = input.attention_mask;
  return nn::to(nn::padded_layout(batch, seq, mask ? ops::reshape(mask, {batch * seq}) : Tensor()), device);
}

Tensor rows_of(const Tensor& x) { return ops::reshape(x, {-1, x.size(-1)}); }

}  // namespace

BertEmbeddings::BertEmbeddings(const BertConfig& c)
    : positions_(c.max_position_embeddings),
      word_(c.vocab_size, c.hidden_size),
      position_(c.max_position_embeddings, c.hidden_size),
      token_type_(c.type_vocab_size, c.hidden_size),
      norm_(c.hidden_size, c.layer_norm_eps),
      dropout_(c.hidden_dropout_prob) {
  add_child("word_embeddings", word_);
  add_child("position_embeddings", position_);
  add_child("token_type_embeddings", token_type_);
  add_child("LayerNorm", norm_);
}

Tensor BertEmbeddings::forward(const BertInput& input, const nn::TokenLayout& layout, bool train) const {
  const Scope scope = enter();
  const int64_t seq = layout.sequences.longest;
  if (seq > positions_) {
    fail(ErrorKind::data, "E-MODEL-INPUT",
         message("a sequence of ", seq, " tokens is longer than the model's ", positions_,
                 " positions: lower tokenizer.max_length"));
  }
  const Tensor types = input.token_types ? input.token_types : zeros(input.ids.shape(), DType::i64, input.ids.device());
  return rows_of(embed(word_.lookup(input.ids), token_type_.lookup(types), position_.lookup(layout.positions), norm_,
                       train ? dropout_ : 0.0, layout.places));
}

Bert::Bert(const BertConfig& c, bool with_pooler, bool activation_checkpointing)
    : embeddings_((check(c), c)), width_(c.hidden_size), activation_checkpointing_(activation_checkpointing) {
  add_child("embeddings", embeddings_);
  const nn::EncoderLayerConfig layer{c.hidden_size,         c.num_attention_heads,          c.intermediate_size,
                                     c.hidden_dropout_prob, c.attention_probs_dropout_prob, c.layer_norm_eps};
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    layers_.push_back(std::make_unique<nn::TransformerEncoderLayer>(layer));
    add_child(message("encoder.layer.", i), *layers_.back());
  }
  if (!with_pooler) return;
  pooler_ = std::make_unique<nn::Linear>(c.hidden_size, c.hidden_size);
  add_child("pooler.dense", *pooler_);
}

Tensor Bert::run_layer(size_t i, const Tensor& x, const nn::TokenLayout& layout, bool first, bool train) const {
  const auto run = [layer = layers_[i].get(), layout, first, train](const Tensors& in) -> Tensors {
    return {first ? layer->forward_first(in[0], layout, train) : layer->forward(in[0], layout, train)};
  };
  return activation_checkpointing_ && train ? autograd::checkpoint(run, {x})[0] : run({x})[0];
}

Bert::Output Bert::forward(const BertInput& input, bool train) const {
  const Scope scope = enter();
  const nn::TokenLayout layout = layout_of(input);
  Shape shape = input.ids.shape();
  shape.push_back(width_);
  Tensor x = embeddings_.forward(input, layout, train);
  Output output{ops::reshape(x, shape), {}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = run_layer(i, x, layout, false, train);
    output.layers.push_back(ops::reshape(x, shape));
  }
  return output;
}

Tensor Bert::pooled(const BertInput& input, bool train) const {
  const Scope scope = enter();
  const nn::TokenLayout layout = layout_of(input);
  Tensor x = embeddings_.forward(input, layout, train);
  for (size_t i = 0; i < layers_.size(); ++i) x = run_layer(i, x, layout, i + 1 == layers_.size(), train);
  return pooler_ ? ops::tanh(pooler_->forward(x)) : x;
}

}  // namespace mixtape::models

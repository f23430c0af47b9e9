#include "models/bert.h"

#include <numeric>

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
  add_child("dropout", dropout_);
}

Tensor BertEmbeddings::forward(const BertInput& input, bool train) const {
  const Scope scope = enter();
  const int64_t seq = input.ids.size(-1);
  if (seq > positions_) {
    fail(ErrorKind::data, "E-MODEL-INPUT",
         message("a sequence of ", seq, " tokens is longer than the model's ", positions_,
                 " positions: lower tokenizer.max_length"));
  }
  std::vector<int64_t> places(static_cast<size_t>(seq));
  std::iota(places.begin(), places.end(), 0);
  const Tensor types = input.token_types ? input.token_types : zeros(input.ids.shape(), DType::i64);
  const Tensor words = ops::add(word_.forward(input.ids), token_type_.forward(types));  // [batch, seq, hidden]
  const Tensor placed = ops::add(words, position_.forward(from_ints(places, {seq})));   // + [seq, hidden]
  return dropout_.forward(norm_.forward(placed), train);
}

Bert::Bert(const BertConfig& c, bool with_pooler, bool activation_checkpointing)
    : embeddings_((check(c), c)), activation_checkpointing_(activation_checkpointing) {
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

Bert::Output Bert::forward(const BertInput& input, bool train) const {
  const Scope scope = enter();
  Tensor mask;
  if (input.attention_mask) {
    mask = ops::reshape(input.attention_mask,
                        {input.ids.size(0), 1, 1, input.ids.size(1)});  // seen by every head and query
  }
  Output output{embeddings_.forward(input, train), {}};
  Tensor x = output.embeddings;
  for (const auto& layer : layers_) {
    const auto run = [&layer, mask, train](const Tensors& in) -> Tensors {
      return {layer->forward(in[0], mask, train)};
    };
    x = activation_checkpointing_ && train ? autograd::checkpoint(run, {x})[0] : run({x})[0];
    output.layers.push_back(x);
  }
  return output;
}

Tensor Bert::pool(const Tensor& last_hidden) const {
  const Scope scope = enter();
  const Tensor first = ops::squeeze(ops::slice(last_hidden, 1, 0, 1), 1);  // [batch, hidden]
  return pooler_ ? ops::tanh(pooler_->forward(first)) : first;
}

}  // namespace mixtape::models

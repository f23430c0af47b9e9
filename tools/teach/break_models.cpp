#include <cmath>

#include "core/factory.h"
#include "models/classifier.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "ops/operators.h"
#include "tools/teach/break_train.h"

namespace mixtape::teach {
namespace {

constexpr int64_t telling = 16;  // words 1 to 8 are of class 0, 9 to 16 of class 1

class TinyBert final : public Learner {
 public:
  TinyBert(double std, uint64_t seed) : classifier_(config(std), seed) { add_child("model", classifier_); }
  Tensor logits(const Tensor& ids) const override { return classifier_.logits(models::BertInput{.ids = ids}, true); }

 private:
  static models::ClassifierConfig config(double std) {
    models::ClassifierConfig out;
    out.bert = {.vocab_size = Sentences::words,
                .hidden_size = 32,
                .num_hidden_layers = 2,
                .num_attention_heads = 2,
                .intermediate_size = 64,
                .max_position_embeddings = Sentences::length,
                .type_vocab_size = 1,
                .hidden_dropout_prob = 0,
                .attention_probs_dropout_prob = 0,
                .initializer_range = std};
    out.head_dropout = 0;
    return out;
  }

  models::BertClassifier classifier_;
};

class AttentiveReader final : public Learner {
 public:
  AttentiveReader(double std, uint64_t seed) : words_(Sentences::words, width), query_(width, 1), out_(width, 1) {
    add_child("words", words_);
    add_child("query", query_);
    add_child("out", out_);
    nn::init_normal(*this, std, seed);
  }
  Tensor logits(const Tensor& ids) const override {
    const Tensor x = words_.forward(ids), scores = ops::squeeze(query_.forward(x), 2);
    const Tensor odds = ops::exp(scores), weights = odds / ops::sum(odds, 1, true);
    const Tensor read = ops::batched_matmul(ops::unsqueeze(weights, 1), x);  // [rows, 1, width]
    return ops::reshape(out_.forward(read), {ids.size(0)});
  }

 private:
  static constexpr int64_t width = 32;
  nn::Embedding words_;
  nn::Linear query_, out_;
};

class NormedReader final : public Learner {
 public:
  NormedReader(double std, uint64_t seed) : words_(Sentences::words, width), out_(width, 1) {
    add_child("words", words_);
    add_child("out", out_);
    for (const NamedTensor& p : parameters()) nn::init_normal(p, p.name == "words.weight" ? std : 0.02, seed);
  }
  Tensor logits(const Tensor& ids) const override {
    const double n = static_cast<double>(width);
    const Tensor x = words_.forward(ids), centred = x - ops::sum(x, 2, true) / n;
    const Tensor variance = ops::sum(centred * centred, 2, true) / n;
    const Tensor normed = centred * ops::rsqrt(variance + 1e-5);
    return ops::squeeze(out_.forward(ops::mean(normed, 1)), 1);
  }

 private:
  static constexpr int64_t width = 256;
  nn::Embedding words_;
  nn::Linear out_;
};

}  // namespace

Sentences draw_sentences(int64_t rows, uint64_t seed, uint32_t step) {
  const int64_t length = Sentences::length;
  const RngCoordinates at{.seed = seed, .stream = rng_stream::test, .step = step};
  const std::vector<double> draws = to_vector(rand_uniform({rows, length + 1}, at, 0, 1));
  const auto below = [](double draw, int64_t n) {
    return std::min(static_cast<int64_t>(draw * static_cast<double>(n)), n - 1);
  };
  std::vector<int64_t> ids;
  Sentences out;
  for (int64_t row = 0; row < rows; ++row) {
    const double* draw = draws.data() + row * (length + 1);
    const int64_t word = 1 + below(draw[0], telling), place = 1 + below(draw[1], length - 1);
    ids.push_back(0);
    for (int64_t i = 1; i < length; ++i)
      ids.push_back(i == place ? word : 1 + telling + below(draw[i + 1], Sentences::words - 1 - telling));
    out.labels.push_back(2 * word > telling);
  }
  out.ids = from_ints(ids, {rows, length});
  return out;
}

MakeLearner tiny_bert(double std) {
  return [std](uint64_t seed) { return std::make_unique<TinyBert>(std, seed); };
}
MakeLearner attentive_reader(double std) {
  return [std](uint64_t seed) { return std::make_unique<AttentiveReader>(std, seed); };
}
MakeLearner normed_reader(double std) {
  return [std](uint64_t seed) { return std::make_unique<NormedReader>(std, seed); };
}

}  // namespace mixtape::teach

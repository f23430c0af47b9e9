// Fused rows, packed batches and the last layer at its first tokens against what they stand for: the composed ops, the
// padded batch, the whole layer. With dropout: all of them draw the same masks.
#include <doctest/doctest.h>

#include <cmath>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "amp/policy.h"
#include "autograd/backward.h"
#include "core/factory.h"
#include "models/classifier.h"
#include "ops/ops.h"
#include "tests/distance.h"
#include "tests/shared.h"

using namespace mixtape;
using tests::distance;

namespace {

models::ClassifierConfig small(double dropout) {
  models::ClassifierConfig c;
  c.bert.vocab_size = 40;
  c.bert.hidden_size = 24;
  c.bert.num_hidden_layers = 3;
  c.bert.num_attention_heads = 2;
  c.bert.intermediate_size = 40;
  c.bert.max_position_embeddings = 12;
  c.bert.hidden_dropout_prob = dropout;
  c.bert.attention_probs_dropout_prob = dropout;
  c.bert.initializer_range = 0.3;  // far from linear
  c.pooling = models::Pooling::pooler;
  return c;
}

// Three texts of 4, 7 and 2 tokens.
models::BertInput padded() {
  const bool t = true, f = false;
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 0, 0, 0, 2, 11, 12, 13, 14, 15, 3, 2, 3, 0, 0, 0, 0, 0}, {3, 7});
  input.attention_mask = from_bools({t, t, t, t, f, f, f, t, t, t, t, t, t, t, t, t, f, f, f, f, f}, {3, 7});
  return input;
}
models::BertInput packed() {
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 11, 12, 13, 14, 15, 3, 2, 3}, {13});
  input.offsets = from_ints({0, 4, 11, 13}, {4});
  input.longest = 7;
  return input;
}

// The loss and all gradients, one after the other.
std::vector<double> step(const models::BertClassifier& model, const models::BertInput& input,
                         std::shared_ptr<const CastRule> rule = nullptr) {
  const RngGuard rng({.seed = 9, .stream = rng_stream::dropout, .step = 5});
  Tensor loss;
  {
    ContextGuard modes;
    context().cast_rule = std::move(rule);
    loss = model.loss_of(model.logits(input, true), from({1, 0, 1}, {3}), 3);
  }
  autograd::backward(loss);
  std::vector<double> all{loss.item()};
  for (const NamedTensor& p : model.parameters()) {
    const std::vector<double> g = to_vector(p.tensor.grad());
    all.insert(all.end(), g.begin(), g.end());
    p.tensor.leaf().gradient = {};
  }
  return all;
}

std::vector<std::string> rows_of(const models::BertClassifier& model, std::shared_ptr<const CastRule> rule) {
  amp::Ledger ledger;
  {
    const ObserverGuard observer(ledger.observer());
    (void)step(model, padded(), std::move(rule));
  }
  std::vector<std::string> names;
  for (const amp::LedgerRow& row : ledger.forward()) names.push_back(row.op);
  return names;
}
bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("a step of fused rows is a step of the composed ops, with dropout") {
  for (const double dropout : {0.0, 0.3}) {
    for (const auto& input : {padded(), packed()}) {
      const models::BertClassifier model(small(dropout), 3);
      const std::vector<double> fused = step(model, input);
      const ComposedGuard composed;
      CHECK(distance(fused, step(model, input)) < 2e-6);
    }
  }
}

TEST_CASE("in 16 bits the fused rows stay as near to f32 as the composed ops") {
  const models::BertClassifier model(small(0.1), 3);
  const std::vector<double> exact = step(model, padded());
  for (const DType low : {DType::bf16, DType::f16}) {
    const auto rule = amp::make_rule(amp::Policy::load("native"), low);
    const double fused = distance(exact, step(model, padded(), rule));
    const ComposedGuard guard;
    const double composed = distance(exact, step(model, padded(), rule));
    CHECK(fused > 0);
    CHECK(fused < 1.5 * composed);
  }
}

TEST_CASE("a packed batch is the padded one: losses, gradients and masks of dropout") {
  for (const double dropout : {0.0, 0.3}) {
    const models::BertClassifier model(small(dropout), 3);
    CHECK(distance(step(model, padded()), step(model, packed())) < 1e-6);
  }
}

TEST_CASE("packed and padded give the same hidden states where tokens stand") {
  const models::BertClassifier model(small(0), 3);
  const NoGradGuard no_grad;
  const auto by_padding = model.bert().forward(padded(), false), by_packing = model.bert().forward(packed(), false);
  const std::vector<double> mask = to_vector(padded().attention_mask);
  for (size_t layer = 0; layer < 3; ++layer) {
    CHECK(by_packing.layers[layer].shape() == Shape{13, 24});
    const std::vector<double> a = to_vector(by_padding.layers[layer]), b = to_vector(by_packing.layers[layer]);
    size_t row = 0;
    for (size_t place = 0; place < mask.size(); ++place) {
      if (mask[place] == 0) continue;
      for (size_t i = 0; i < 24; ++i) CHECK(a[place * 24 + i] == doctest::Approx(b[row * 24 + i]).epsilon(1e-5));
      ++row;
    }
    CHECK(row == 13);
  }
}

TEST_CASE("the last layer at its first tokens gives what the whole layer gives there, gradients too") {
  const nn::TransformerEncoderLayer layer({24, 2, 40, 0.3, 0.3, 1e-12});
  for (const NamedTensor& p : layer.parameters()) {
    assign(p.tensor, randn(p.tensor.shape(), {.stream = rng_stream::test, .draw = 1}, 0.3));
  }
  const Tensor x = randn({13, 24}, {.stream = rng_stream::test}).set_requires_grad();
  const nn::TokenLayout layout = nn::packed_layout(from_ints({0, 4, 11, 13}, {4}), 7);
  const auto gradients = [&](bool first) {
    const RngGuard rng({.seed = 9, .stream = rng_stream::dropout, .step = 5});
    const Tensor y = first ? layer.forward_first(x, layout, true)
                           : ops::index_select(layer.forward(x, layout, true), 0, layout.first_tokens);
    std::vector<double> all = to_vector(y);
    autograd::backward(ops::sum(ops::mul(y, randn(y.shape(), {.stream = rng_stream::test, .draw = 2}))));
    NamedTensors leaves = layer.parameters();
    leaves.push_back({"x", x});
    for (const NamedTensor& leaf : leaves) {
      const std::vector<double> g = to_vector(leaf.tensor.grad());
      all.insert(all.end(), g.begin(), g.end());
      leaf.tensor.leaf().gradient = {};
    }
    return all;
  };
  CHECK(distance(gradients(true), gradients(false)) < 2e-6);
  const ComposedGuard composed;
  CHECK(distance(gradients(true), gradients(false)) < 2e-6);
}

TEST_CASE("fused rows run where the policy leaves what they absorb alone, and nowhere else") {
  const models::BertClassifier model(small(0.1), 3);
  const auto with = [&](const std::string& op, Rule rule) {
    amp::Policy policy = amp::Policy::load("native");
    if (!op.empty()) policy.replace(op, rule);
    return rows_of(model, amp::make_rule(policy, DType::bf16));
  };
  const std::vector<std::string> native = with("", Rule::keep);
  CHECK(has(native, "joint_linear"));
  CHECK(has(native, "attention"));
  CHECK(has(native, "feed_forward"));
  CHECK(has(native, "dropout_add_layer_norm"));
  CHECK(has(native, "embed_layer_norm"));
  CHECK(!has(native, "embedding"));
  CHECK(!has(native, "masked_softmax"));

  const std::vector<std::string> softmax_up = with("masked_softmax", Rule::full);
  CHECK(!has(softmax_up, "attention"));
  CHECK(has(softmax_up, "masked_softmax"));
  CHECK(has(softmax_up, "feed_forward"));
  const std::vector<std::string> linear_up = with("linear", Rule::full);
  CHECK(!has(linear_up, "joint_linear"));
  CHECK(has(linear_up, "attention"));
  const std::vector<std::string> gelu_up = with("gelu", Rule::full);
  CHECK(has(gelu_up, "attention"));
  CHECK(!has(gelu_up, "feed_forward"));
  const std::vector<std::string> norm_up = with("layer_norm", Rule::full);
  CHECK(!has(norm_up, "dropout_add_layer_norm"));
  CHECK(!has(norm_up, "embed_layer_norm"));
  const std::vector<std::string> lookup_kept = with("embedding", Rule::keep);
  CHECK(has(lookup_kept, "embedding"));
  CHECK(!has(lookup_kept, "embed_layer_norm"));
  CHECK(has(lookup_kept, "attention"));
  // What stands for many ops has no rule of its own.
  CHECK(tests::contains(tests::error_text([&] { (void)with("attention", Rule::full); }),
                        "name them instead (batched_matmul"));

  const ComposedGuard composed;
  CHECK(!has(with("", Rule::keep), "attention"));
}

TEST_CASE("composed attention is made of the softmax row that the fused one absorbs, with a mask and without") {
  const Tensor x = from(std::vector<double>(4 * 6, 0.5), {4, 6});
  for (const auto& offsets : {from_ints({0, 2, 4}, {3}), from_ints({0, 1, 4}, {3})}) {  // alike: no padding, no mask
    const int64_t longest = offsets.size(0) == 3 && to_vector(offsets)[1] == 2 ? 2 : 3;
    amp::Ledger ledger;
    {
      const ObserverGuard observer(ledger.observer());
      const ComposedGuard composed;
      (void)ops::attention(x, x, x, {offsets, longest, {}}, 2, 0.0);
    }
    std::vector<std::string> names;
    for (const amp::LedgerRow& row : ledger.forward()) names.push_back(row.op);
    CHECK(has(names, "masked_softmax"));
    CHECK(!has(names, "softmax"));
  }
}

TEST_CASE("a ComposedGuard can name rows: these are composed, the others are not, and afterwards all is as before") {
  const models::BertClassifier model(small(0.1), 3);
  const auto names = [&](std::vector<const OpSchema*> rows) {
    const ComposedGuard composed(std::move(rows));
    return rows_of(model, nullptr);
  };
  const std::vector<std::string> one = names({find_op("attention")});
  CHECK(!has(one, "attention"));
  CHECK(has(one, "masked_softmax"));
  CHECK(has(one, "feed_forward"));
  const std::vector<std::string> two = names({find_op("feed_forward"), find_op("dropout_add_layer_norm")});
  CHECK(has(two, "attention"));
  CHECK(has(two, "gelu"));
  CHECK(!has(two, "dropout_add_layer_norm"));
  CHECK(has(names({}), "attention"));
  {
    const ComposedGuard all;
    CHECK(!has(names({find_op("attention")}), "feed_forward"));  // inside, all stay composed
    CHECK(!has(rows_of(model, nullptr), "attention"));
  }
  CHECK(has(rows_of(model, nullptr), "attention"));
}

TEST_CASE("every row that a fused one absorbs is in the table, and fused rows say so") {
  const CastRule nothing;
  int fused = 0;
  for (const OpSchema* op : registry()) {
    CHECK(nothing.fuses(*op));  // throws for a name that is no row's
    fused += !op->info->absorbs.empty();
  }
  CHECK(fused >= 4);
}

TEST_CASE("a fused row differentiates once and says what does it twice") {
  const Tensor x = randn({2, 4}, {.stream = rng_stream::test}).set_requires_grad();
  const Tensor one = full({4}, 1), zero = zeros({4});
  const auto twice = [&] {
    const Tensor y = ops::sum(ops::dropout_add_layer_norm(x, full({2, 4}, 0.5), one, zero, 0));
    return autograd::grad({y}, {x}, {.create_graph = true});
  };
  CHECK(tests::contains(tests::error_text([&] { (void)twice(); }), "under a ComposedGuard"));
}

TEST_CASE("cross_entropy is nll of log_softmax, with smoothing, ignored targets and every reduction") {
  const Tensor logits = randn({5, 4}, {.stream = rng_stream::test}).set_requires_grad();
  const Tensor targets = from_ints({0, 3, -100, 1, 3}, {5});
  for (const double smoothing : {0.0, 0.2}) {
    for (const auto reduction : {ops::Reduction::mean, ops::Reduction::sum, ops::Reduction::none}) {
      for (const double items : {0.0, 7.0}) {
        if (items > 0 && reduction != ops::Reduction::mean) continue;
        const auto run = [&] {
          const Tensor loss = ops::cross_entropy(logits, targets, {.reduction = reduction, .items = items}, smoothing);
          std::vector<double> all = to_vector(loss);
          const std::vector<double> g = to_vector(autograd::grad({ops::sum(loss)}, {logits})[0]);
          all.insert(all.end(), g.begin(), g.end());
          return all;
        };
        const std::vector<double> fused = run();
        const ComposedGuard composed;
        CHECK(distance(fused, run()) < 1e-6);
      }
    }
  }
}

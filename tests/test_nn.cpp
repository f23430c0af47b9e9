#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/cast.h"
#include "core/factory.h"
#include "nn/encoder_layer.h"
#include "nn/init.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using Values = std::vector<double>;
using Weights = std::map<std::string, Values>;

constexpr int64_t batch = 2, seq = 3, width = 4, heads = 2, inner = 6;
constexpr nn::EncoderLayerConfig config{width, heads, inner, 0.0, 0.0, 1e-12};

// --- the layer once more: plain loops in double, by the formulas of its papers ---

struct Reference {
  Weights w;
  std::vector<bool> visible;  // [batch, seq]

  Values linear(const Values& x, const std::string& name, int64_t in, int64_t out) const {
    const Values &weight = w.at(name + ".weight"), &bias = w.at(name + ".bias");
    const int64_t rows = static_cast<int64_t>(x.size()) / in;
    Values y;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = bias[static_cast<size_t>(o)];
        for (int64_t i = 0; i < in; ++i)
          sum += x[static_cast<size_t>(r * in + i)] * weight[static_cast<size_t>(o * in + i)];
        y.push_back(sum);
      }
    }
    return y;
  }
  Values normalized(const Values& x, const std::string& name) const {
    Values y = x;
    for (size_t r = 0; r < x.size(); r += width) {
      double mean = 0, var = 0;
      for (size_t i = 0; i < width; ++i) mean += x[r + i] / width;
      for (size_t i = 0; i < width; ++i) var += (x[r + i] - mean) * (x[r + i] - mean) / width;
      for (size_t i = 0; i < width; ++i) {
        y[r + i] = (x[r + i] - mean) / std::sqrt(var + 1e-12) * w.at(name + ".weight")[i] + w.at(name + ".bias")[i];
      }
    }
    return y;
  }
  Values attention(const Values& x) const {
    const Values q = linear(x, "attention.self.query", width, width), k = linear(x, "attention.self.key", width, width),
                 v = linear(x, "attention.self.value", width, width);
    constexpr size_t head = width / heads;
    Values context(x.size());
    for (size_t b = 0; b < batch; ++b) {
      for (size_t h = 0; h < heads; ++h) {
        for (size_t i = 0; i < seq; ++i) {
          const size_t row = (b * seq + i) * width + h * head;
          Values p(seq);
          double sum = 0;
          for (size_t j = 0; j < seq; ++j) {
            double score = 0;
            for (size_t d = 0; d < head; ++d) score += q[row + d] * k[(b * seq + j) * width + h * head + d];
            p[j] = visible[b * seq + j] ? std::exp(score / std::sqrt(static_cast<double>(head))) : 0;
            sum += p[j];
          }
          for (size_t j = 0; j < seq; ++j) {
            for (size_t d = 0; d < head && sum > 0; ++d) {
              context[row + d] += p[j] / sum * v[(b * seq + j) * width + h * head + d];
            }
          }
        }
      }
    }
    return linear(context, "attention.output.dense", width, width);
  }
  Values layer(const Values& x) const {
    Values h = attention(x);
    for (size_t i = 0; i < h.size(); ++i) h[i] += x[i];
    h = normalized(h, "attention.output.LayerNorm");
    Values u = linear(h, "intermediate.dense", width, inner);
    for (double& value : u) value = 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
    Values y = linear(u, "output.dense", inner, width);
    for (size_t i = 0; i < y.size(); ++i) y[i] += h[i];
    return normalized(y, "output.LayerNorm");
  }
};

// A layer whose every parameter is random, and what the reference needs to know of it.
struct Fixture {
  nn::TransformerEncoderLayer layer{config};
  Tensor x = randn({batch * seq, width}, {.stream = rng_stream::test});
  std::vector<bool> visible = {true, true, false, true, true, true};
  nn::TokenLayout layout() const { return nn::padded_layout(batch, seq, from_bools(visible, {batch * seq})); }
  Fixture() {
    uint32_t draw = 1;
    for (const NamedTensor& p : layer.parameters()) {
      assign(p.tensor, randn(p.tensor.shape(), {.stream = rng_stream::test, .draw = ++draw}, 0.5));
    }
  }
  Reference reference() const {
    Reference r{{}, visible};
    for (const NamedTensor& p : layer.parameters()) r.w[p.name] = to_vector(p.tensor);
    return r;
  }
};

// Weights of a loss Σ c·y that tells all outputs apart.
double weight_of(size_t i) { return std::cos(static_cast<double>(i) + 1); }
double loss_of(const Values& y) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += weight_of(i) * y[i];
  return sum;
}

TEST_CASE("parameters have the names and shapes of Hugging Face's BERT layer") {
  const nn::TransformerEncoderLayer layer(config);
  std::string all;
  for (const NamedTensor& p : layer.parameters()) {
    all += p.name + p.tensor.shape().str() + "\n";
    CHECK(p.tensor.leaf().name == p.name);
  }
  CHECK(all ==
        "attention.self.query.weight[4, 4]\nattention.self.query.bias[4]\n"
        "attention.self.key.weight[4, 4]\nattention.self.key.bias[4]\n"
        "attention.self.value.weight[4, 4]\nattention.self.value.bias[4]\n"
        "attention.output.dense.weight[4, 4]\nattention.output.dense.bias[4]\n"
        "attention.output.LayerNorm.weight[4]\nattention.output.LayerNorm.bias[4]\n"
        "intermediate.dense.weight[6, 4]\nintermediate.dense.bias[6]\n"
        "output.dense.weight[4, 6]\noutput.dense.bias[4]\n"
        "output.LayerNorm.weight[4]\noutput.LayerNorm.bias[4]\n");
  CHECK(layer.parameter_count() == 4 * (16 + 4) + 8 + 30 + 28 + 8);
}

TEST_CASE("the layer follows the reference, padding and a text without any visible place among it") {
  Fixture f;
  SUBCASE("padding") {}
  SUBCASE("nothing visible") { f.visible = {false, false, false, true, true, true}; }
  const Values y = to_vector(f.layer.forward(f.x, f.layout(), true)), expected = f.reference().layer(to_vector(f.x));
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("without a mask every place is visible") {
  Fixture f;
  f.visible.assign(batch * seq, true);
  const nn::TokenLayout no_mask = nn::padded_layout(batch, seq, {});
  CHECK(to_vector(f.layer.forward(f.x, no_mask, false)) == to_vector(f.layer.forward(f.x, f.layout(), false)));
}

TEST_CASE("every parameter's gradient, and the input's, agrees with differences of the reference") {
  Fixture f;
  f.x.set_requires_grad();
  const Tensor y = f.layer.forward(f.x, f.layout(), true);
  Values c;
  for (int64_t i = 0; i < y.numel(); ++i) c.push_back(weight_of(static_cast<size_t>(i)));
  autograd::backward(ops::sum(ops::mul(y, from(c, y.shape()))));

  Reference reference = f.reference();
  Values x = to_vector(f.x);
  const auto slope = [&](double& value) {
    const double at = value, h = 1e-5;
    value = at + h;
    const double above = loss_of(reference.layer(x));
    value = at - h;
    const double below = loss_of(reference.layer(x));
    value = at;
    return (above - below) / (2 * h);
  };
  const auto compare = [&](const std::string& name, const Tensor& gradient, Values& values) {
    CAPTURE(name);
    REQUIRE(gradient);
    const Values got = to_vector(gradient);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - slope(values[i])) < 2e-5);
  };
  compare("x", f.x.grad(), x);
  for (const NamedTensor& p : f.layer.parameters()) compare(p.name, p.tensor.grad(), reference.w[p.name]);
}

TEST_CASE("places that are padding change no visible one") {
  Fixture f;
  const Values before = to_vector(f.layer.forward(f.x, f.layout(), false));
  Values moved = to_vector(f.x);
  for (size_t i = 2 * width; i < 3 * width; ++i) moved[i] += 5;  // place 2 of text 0 is hidden
  const Values after = to_vector(f.layer.forward(from(moved, f.x.shape()), f.layout(), false));
  for (size_t i = 0; i < before.size(); ++i) {
    if (i / width != 2) CHECK(before[i] == after[i]);
  }
}

TEST_CASE("under a guard the residual stream stays in 16 bits, and gradients are f32") {
  const Fixture f;
  const amp::Autocast guard(DType::bf16);
  const Tensor y = f.layer.forward(autograd::cast(f.x, DType::bf16), f.layout(), true);
  CHECK(y.dtype() == DType::bf16);
  autograd::backward(ops::sum(y));
  for (const NamedTensor& p : f.layer.parameters()) CHECK(p.tensor.grad().dtype() == DType::f32);
}

TEST_CASE("errors name the place in the model") {
  const nn::TransformerEncoderLayer layer(config);
  const std::string text = tests::error_text([&] {
    layer.forward(zeros({batch * seq, width + 1}), nn::padded_layout(batch, seq, {}), false);
  });
  CHECK(tests::contains(text, "E-SHAPE: joint_linear: input 'weight0' has shape [4, 4], expected [out, 5]"));
  CHECK(tests::contains(text, "(in attention.self.qkv)"));
  CHECK(tests::contains(tests::error_text([] { nn::MultiHeadAttention attention(10, 3, 0); }),
                        "E-MODEL-CONFIG: hidden_size 10 is not a multiple of num_attention_heads 3"));
}

TEST_CASE("train or evaluation is an argument: evaluating draws nothing and changes no later mask") {
  const nn::Dropout dropout(0.5);
  const Tensor x = full({64}, 1);
  const RngGuard at({.seed = 1, .stream = rng_stream::dropout, .step = 4});
  CHECK(dropout.forward(x, false).same_as(x));
  const Values first = to_vector(dropout.forward(x, true));
  CHECK(first != to_vector(dropout.forward(x, true)));  // two layers, two masks
  const RngGuard again({.seed = 1, .stream = rng_stream::dropout, .step = 4});
  CHECK(to_vector(dropout.forward(x, true)) == first);
}

TEST_CASE("switching one dropout off leaves the masks of the others as they are") {
  const Tensor x = full({64}, 1);
  const auto second_mask = [&](double p_of_first) {
    const RngGuard at({.seed = 1, .stream = rng_stream::dropout, .step = 4});
    (void)nn::Dropout(p_of_first).forward(x, true);
    return to_vector(nn::Dropout(0.5).forward(x, true));
  };
  CHECK(second_mask(0.3) == second_mask(0));
}

TEST_CASE("initial weights: normal, a function of seed and name, vectors as they were") {
  class Root : public nn::Module {
   public:
    explicit Root(bool more) : a_(64, 64), b_(64, 64), norm_(64, 1e-5) {
      if (more) add_child("b", b_);
      add_child("a", a_);
      add_child("LayerNorm", norm_);
    }

   private:
    nn::Linear a_, b_;
    nn::LayerNorm norm_;
  };
  const Root small(false), large(true), other(true);
  nn::init_normal(small, 0.02, 7), nn::init_normal(large, 0.02, 7), nn::init_normal(other, 0.02, 8);
  const auto values = [](const nn::Module& root, const std::string& name) {
    for (const NamedTensor& p : root.parameters()) {
      if (p.name == name) return to_vector(p.tensor);
    }
    return Values{};
  };
  const Values a = values(small, "a.weight");
  CHECK(a == values(large, "a.weight"));
  CHECK(a != values(large, "b.weight"));
  CHECK(a != values(other, "a.weight"));
  CHECK(values(small, "a.bias") == Values(64, 0.0));
  CHECK(values(small, "LayerNorm.weight") == Values(64, 1.0));
  double mean = 0, squares = 0;
  for (const double value : a) mean += value / 4096, squares += value * value / 4096;
  CHECK(std::fabs(mean) < 0.02 * 5 / 64);  // five standard errors
  CHECK(std::sqrt(squares) == doctest::Approx(0.02).epsilon(5 / std::sqrt(2 * 4096.0)));
}

TEST_CASE("a frozen part stays among the parameters, gets no gradient, and thaws") {
  const Fixture f;
  const NamedTensors all = f.layer.parameters();
  Tensor frozen = all[0].tensor;
  frozen.set_requires_grad(false);
  CHECK(f.layer.parameters().size() == all.size());
  autograd::backward(ops::sum(f.layer.forward(f.x, f.layout(), true)));
  CHECK_FALSE(frozen.requires_grad());
  CHECK(all[1].tensor.grad());
  frozen.set_requires_grad();
  CHECK(f.layer.parameters()[0].tensor.leaf().name == "attention.self.query.weight");
}

TEST_CASE("an embedding is rows of its table") {
  const nn::Embedding table(5, 2);
  assign(table.parameters()[0].tensor, from({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5, 2}));
  CHECK(to_vector(table.forward(from_ints({4, 0}, {1, 2}))) == Values{8, 9, 0, 1});
}

}  // namespace
}  // namespace mixtape

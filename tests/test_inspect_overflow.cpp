// inspect why-overflow: planted overflows are named, forward and backward, in every dtype.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "tests/recorder.h"
#include "tools/inspect/overflow.h"

namespace mixtape::inspect {
namespace {
using tests::TinyRun;

using OverflowSets = std::vector<std::string>;

trainer::Progress& silence() {
  static trainer::Progress progress(trainer::Verbosity::quiet);
  return progress;
}

Replay replay_of(const TinyRun& tiny, const OverflowSets& sets) {
  return Replay::of_config(tiny.config(sets), silence());
}

/// "0 output.dense" -> "bert.encoder.layer.0.output.dense"; other paths stay.
std::string full_path(const std::string& path) {
  return path.size() > 1 && path[1] == ' ' ? message("bert.encoder.layer.", path.substr(0, 1), ".", path.substr(2))
                                           : path;
}

const Tensor& weight_of(const NamedTensors& all, const std::string& name) {
  for (const NamedTensor& one : all) {
    if (one.name == name) return one.tensor;
  }
  FAIL("no parameter " << name);
  return all.front().tensor;
}

/// Multiplies a parameter, or sets it where `factor` is 0.
struct Tampering {
  const char* parameter;
  double factor, value = 0;
};
void tamper(const Replay& replay, const Tampering& how) {
  const NamedTensors all = replay.model().parameters();
  const Tensor& weight = weight_of(all, full_path(how.parameter));
  Tensor changed = full(weight.shape(), how.value);
  const double half_way = std::sqrt(how.factor);  // the factor itself may be beyond fp32
  if (how.factor != 0) kernels::scale(weight.view(), half_way, changed.view());
  if (how.factor != 0) kernels::scale(changed.view(), half_way, changed.view());
  assign(weight, changed);
}

/// Weights that make one op of the step overflow.
struct PlantedWeight {
  const char *parameter, *op, *scope;
  double factor, value = 0;
  const char* before = "";  // this parameter times 100 too: what the op reads is large
  const char* set = "trainer.seed=42";
  const char* belongs = "";  // the op's parameter, where it is another one ("-": none)
  TensorKind kind = TensorKind::activation;
};

constexpr double large = 5e5, huge = 4e39;  // times 0.02: sums of products leave fp16, or bf16 and fp32
constexpr auto agrad = TensorKind::activation_gradient;

const PlantedWeight planted_in_fp16[] = {
    {"0 attention.self.query.weight", "linear", "0 attention.self.qkv", large},
    {"0 attention.self.key.weight", "linear", "0 attention.self.qkv", large},
    {"1 attention.self.query.weight", "linear", "1 attention.self.query", large},
    {"1 attention.self.value.weight", "linear", "1 attention.self.kv", large},
    {"0 attention.output.dense.weight", "linear", "0 attention.output.dense", large, 0,
     "0 attention.self.value.weight"},
    {"0 intermediate.dense.weight", "linear", "0 feed_forward", large},
    {"1 intermediate.dense.weight", "linear", "1 feed_forward", large},
    {"1 output.dense.weight", "linear", "1 feed_forward", large, 0, "1 intermediate.dense.weight"},
    {"0 attention.output.LayerNorm.weight", "layer_norm", "0 attention.output.LayerNorm", 6e4},
    {"1 output.LayerNorm.weight", "layer_norm", "1 output.LayerNorm", 6e4},
    {"bert.embeddings.LayerNorm.weight", "layer_norm", "bert.embeddings", 6e4},
    {"1 output.LayerNorm.bias", "dropout", "dropout", 0, 62000, "", "trainer.seed=42", "-"},
    {"classifier.weight", "linear", "classifier", large, 0, "1 output.LayerNorm.weight"},
    {"classifier.weight", "cast", "classifier", 0, 1e5},
    {"bert.pooler.dense.weight", "linear", "bert.pooler.dense", large, 0, "", "model.pooling=pooler"},
    {"classifier.weight", "linear.backward", "classifier", 0, 10, "", "trainer.seed=42", "", agrad},
    {"1 output.LayerNorm.weight", "layer_norm.backward", "1 output.LayerNorm", 1e3, 0, "", "trainer.seed=42", "",
     agrad},
    {"classifier.bias", "cast.backward", "loss", 1, 0, "", "amp.init_scale=16777216", "-", agrad},
};
const PlantedWeight planted_in_wide[] = {
    {"0 attention.self.query.weight", "linear", "0 attention.self.qkv", huge},
    {"1 intermediate.dense.weight", "linear", "1 feed_forward", huge},
    {"classifier.weight", "linear", "classifier", huge, 0, "1 output.LayerNorm.weight"},
};

void check_named(const TinyRun& tiny, const std::string& dtype, const PlantedWeight& plant) {
  Replay replay = replay_of(tiny, {"amp.dtype=" + dtype, plant.set});
  tamper(replay, {plant.parameter, plant.factor, plant.value});
  if (*plant.before != 0) tamper(replay, {plant.before, 100});
  const Overflow found = explain_step(replay, replay.loss_scale());
  const std::string parameter = *plant.belongs == 0 ? full_path(plant.parameter) : "";
  CAPTURE(dtype);
  CAPTURE(plant.parameter);
  CAPTURE(overflow_text(found));
  REQUIRE(found.culprit);
  CHECK(found.culprit->op == plant.op);
  CHECK(found.culprit->scope == full_path(plant.scope));
  CHECK(found.culprit->parameter == parameter);
  CHECK(found.culprit->kind == plant.kind);
  CHECK(found.culprit->inf + found.culprit->nan > 0);
  REQUIRE(found.culprit->true_value);
  CHECK(*found.culprit->true_value > -lowest(found.culprit->dtype));
  const bool forward = plant.kind == TensorKind::activation;
  CHECK(found.verdict == (forward ? Verdict::forward : Verdict::harmless));
  CHECK(found.passes_at.has_value() == !forward);
}

/// While it lives, the n-th backward of an op in a step gives its first gradient far too large.
class PlantedBackward {
 public:
  PlantedBackward(const std::string& op, int n) : schema_(const_cast<OpSchema*>(find_op(op))) {
    original = schema_->backward;
    countdown = n;
    schema_->backward = [](const void* attrs, autograd::Grads& grads) {
      Tensors out = original(attrs, grads);
      if (countdown-- != 0 || !out[0]) return out;
      for (int i = 0; i < 2; ++i) {
        const Tensor larger = empty_like(out[0]);
        kernels::scale(out[0].view(), out[0].dtype() == DType::f16 ? 1e9 : 1e38, larger.view());
        out[0] = larger;
      }
      return out;
    };
  }
  ~PlantedBackward() { schema_->backward = original; }
  PlantedBackward(const PlantedBackward&) = delete;
  PlantedBackward& operator=(const PlantedBackward&) = delete;

 private:
  OpSchema* schema_;
  static inline Tensors (*original)(const void*, autograd::Grads&) = nullptr;
  static inline int countdown = 0;
};

/// Scopes of an op in the order of a clean step's backward.
std::vector<std::string> backward_scopes(Replay& replay, const std::string& op) {
  struct Seen {
    std::string op;
    std::vector<std::string> scopes;
  } seen{op, {}};
  Observer observer;
  observer.self = &seen;
  observer.on_backward = [](void* self, const BackwardEvent& event) {
    auto& all = *static_cast<Seen*>(self);
    if (event.op.info->name == all.op) all.scopes.push_back(event.scope);
  };
  (void)replay.look({.observer = &observer});
  return seen.scopes;
}

}  // namespace

TEST_CASE("why-overflow names the op, the place and the kind of every overflow that weights make") {
  const TinyRun tiny;
  for (const PlantedWeight& plant : planted_in_fp16) check_named(tiny, "fp16", plant);
  for (const char* dtype : {"bf16", "off"}) {
    for (const PlantedWeight& plant : planted_in_wide) check_named(tiny, dtype, plant);
  }
}

TEST_CASE("why-overflow names the op and the layer whose backward fails, in three dtypes") {
  const TinyRun tiny;
  int named = 0;
  for (const char* dtype : {"fp16", "bf16", "off"}) {
    for (const char* op :
         {"linear", "joint_linear", "attention", "feed_forward", "dropout_add_layer_norm", "dropout"}) {
      Replay replay = replay_of(tiny, {message("amp.dtype=", dtype)});
      const std::vector<std::string> scopes = backward_scopes(replay, op);
      REQUIRE_FALSE(scopes.empty());
      for (size_t n = 0; n < scopes.size(); ++n) {
        const PlantedBackward plant(op, static_cast<int>(n));
        const Search search = find_culprit(replay, replay.loss_scale());
        CAPTURE(dtype);
        CAPTURE(op);
        CAPTURE(scopes[n]);
        REQUIRE(search.culprit);
        CHECK(search.culprit->op == message(op, ".backward"));
        CHECK(search.culprit->scope == scopes[n]);
        CHECK(search.culprit->kind == TensorKind::activation_gradient);
        CHECK(search.report.result == optim::StepResult::skipped_overflow);
        ++named;
      }
    }
  }
  CHECK(named >= 3 * 12);
}

TEST_CASE("why-overflow: the true value, the scale that fits, the texts and the headroom are those of the step") {
  const TinyRun tiny;
  Replay replay = replay_of(tiny, {"amp.dtype=fp16", "model.head_dropout=0"});
  tamper(replay, {"classifier.weight", 0, 10});
  const Overflow found = explain_step(replay, 65536);
  REQUIRE(found.culprit);
  // Normalised rows sum to 0, so the logits are 0 and each text sends ±scale/2/4 into a weight of 10.
  CHECK(*found.culprit->true_value == doctest::Approx(65536.0 / 8 * 10).epsilon(0.02));
  CHECK(found.culprit->inf == found.culprit->elements);
  CHECK(found.culprit->samples.size() == 4);
  for (const SampleShare& share : found.culprit->samples) CHECK(share.share == 0.25);
  CHECK(found.passes_at == 32768);
  CHECK(found.headroom == doctest::Approx(65504 / (32768.0 / 8 * 10)).epsilon(0.02));
  CHECK(found.verdict == Verdict::harmless);
  CHECK(replay.loss_scale() == 65536);
  const Trial above = try_scale(replay, 65536), below = try_scale(replay, 32768);
  CHECK_FALSE(above.fits);
  CHECK(below.fits);
}

TEST_CASE("why-overflow: verdicts for what no back-off helps") {
  const TinyRun tiny;
  const auto verdict = [&](const OverflowSets& sets, const Tampering& how, double scale) {
    Replay replay = replay_of(tiny, sets);
    tamper(replay, how);
    return explain_step(replay, scale).verdict;
  };
  const Tampering steep = {"classifier.weight", 0, 10};
  CHECK(verdict({"amp.dtype=fp16"}, {"classifier.bias", 0, NAN}, 65536) == Verdict::parameters);
  CHECK(verdict({"amp.dtype=fp16"}, {"0 intermediate.dense.weight", large}, 65536) == Verdict::forward);
  CHECK(verdict({"amp.dtype=fp16", "amp.loss_scale=65536"}, steep, 65536) == Verdict::fixed);
  CHECK(verdict({"amp.dtype=fp16", "amp.min_scale=65536"}, steep, 65536) == Verdict::floor);
  CHECK(verdict({"amp.dtype=fp16"}, steep, 65536) == Verdict::harmless);
  {
    Replay replay = replay_of(tiny, {"amp.dtype=bf16"});
    const PlantedBackward plant("attention", 0);
    const Overflow found = explain_step(replay, 1);
    CHECK(found.verdict == Verdict::unscaled);
  }
}

}  // namespace mixtape::inspect

// inspect compare: two dtypes in lockstep; an op that is less exact than its bound is named.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/inspect/compare.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::error_text;
using tests::run_program;
using tests::TinyRun;

Comparison compare_tiny(const TinyRun& tiny, const CompareOptions& options, const std::vector<std::string>& sets = {}) {
  trainer::Progress progress(trainer::Verbosity::quiet);
  return compare(tiny.config_path(), sets, options, progress);
}

/// While it lives, a row's 16-bit kernel is off by a part of its result: forward in one place of the model, or the n-th
/// backward of a step.
class WrongKernel {
 public:
  WrongKernel(const std::string& op, std::string where, double off) : schema_(const_cast<OpSchema*>(find_op(op))) {
    forward = schema_->forward, backward = schema_->backward;
    place = std::move(where), part = off;
    schema_->forward = [](const void* attrs, const Views& in, const Views& out) {
      forward(attrs, in, out);
      if (is_low(out[0].dtype) && scope_path(context().scope.get()) == place) kernels::scale(out[0], 1 + part, out[0]);
    };
  }
  WrongKernel(const std::string& op, int n, double off) : schema_(const_cast<OpSchema*>(find_op(op))) {
    forward = schema_->forward, backward = schema_->backward;
    countdown = n, part = off;
    schema_->backward = [](const void* attrs, autograd::Grads& grads) {
      Tensors out = backward(attrs, grads);
      if (!out[0] || !is_low(out[0].dtype()) || countdown-- != 0) return out;
      const Tensor wrong = empty_like(out[0]);
      kernels::scale(out[0].view(), 1 + part, wrong.view());
      out[0] = wrong;
      return out;
    };
  }
  ~WrongKernel() { schema_->forward = forward, schema_->backward = backward; }
  WrongKernel(const WrongKernel&) = delete;
  WrongKernel& operator=(const WrongKernel&) = delete;

 private:
  OpSchema* schema_;
  static inline void (*forward)(const void*, const Views&, const Views&) = nullptr;
  static inline Tensors (*backward)(const void*, autograd::Grads&) = nullptr;
  static inline std::string place;
  static inline double part = 0;
  static inline int countdown = 0;
};

struct WrongOp {
  const char *op, *scope;
};
constexpr WrongOp wrong_ops[] = {{"joint_linear", "bert.encoder.layer.0.attention.self.qkv"},
                                 {"attention", "bert.encoder.layer.0.attention"},
                                 {"attention", "bert.encoder.layer.1.attention"},
                                 {"linear", "bert.encoder.layer.1.attention.output.dense"},
                                 {"feed_forward", "bert.encoder.layer.0.feed_forward"},
                                 {"dropout_add_layer_norm", "bert.encoder.layer.1.output.LayerNorm"},
                                 {"embed_layer_norm", "bert.embeddings"},
                                 {"linear", "classifier"}};
}  // namespace

TEST_CASE("compare: every op of a step is within its bound in each dtype, fused and composed") {
  const TinyRun tiny;
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    for (const bool fused : {true, false}) {
      const Comparison result = compare_tiny(tiny, {.a = "fp32", .b = dtype, .steps = 4, .composed = !fused});
      CAPTURE(comparison_text(result));
      CHECK_FALSE(result.outside);
      CHECK(result.forward_calls >= 4 * (fused ? 14 : 30));
      CHECK(result.backward_calls >= 4 * (fused ? 14 : 30));
      REQUIRE(result.closest);
      CHECK(result.closest->of_bound > 0.01);  // a bound that is never come near says nothing
      CHECK(result.closest->of_bound <= 1);
      CHECK(result.steps.size() == 4);
    }
  }
}

TEST_CASE("compare finds a planted error of one op at the op and the place") {
  const TinyRun tiny;
  for (const char* dtype : {"fp16", "bf16"}) {
    for (const WrongOp& wrong : wrong_ops) {
      const double off = std::string(wrong.op) == "feed_forward" && *dtype == 'b' ? 0.5 : 0.05;  // it rounds inside
      const WrongKernel plant(wrong.op, std::string(wrong.scope), off);
      const Comparison result = compare_tiny(tiny, {.a = "fp32", .b = dtype, .steps = 1});
      CAPTURE(dtype);
      CAPTURE(wrong.scope);
      CAPTURE(comparison_text(result));
      REQUIRE(result.outside);
      CHECK(result.outside->op == wrong.op);
      CHECK(result.outside->scope == wrong.scope);
      CHECK_FALSE(result.outside->backward);
      CHECK(result.outside->error == doctest::Approx(off).epsilon(0.2));
      CHECK(result.outside_step == 1);
    }
  }
}

TEST_CASE("compare: by themselves, ops that round inside a fused row have bounds of their own") {
  const TinyRun tiny;
  const WrongKernel plant("gelu", std::string("bert.encoder.layer.1.feed_forward"), 0.05);
  CHECK_FALSE(compare_tiny(tiny, {.a = "fp32", .b = "bf16", .steps = 1}).outside);  // the fused row does not call it
  const Comparison result = compare_tiny(tiny, {.a = "fp32", .b = "bf16", .steps = 1, .composed = true});
  REQUIRE(result.outside);
  CHECK(result.outside->op == "gelu");
  CHECK(result.outside->scope == "bert.encoder.layer.1.feed_forward");
}

TEST_CASE("compare finds a planted error of one backward") {
  const TinyRun tiny;
  const struct {
    const char* op;
    int n;
    const char* scope;
  } cases[] = {{"linear", 0, "classifier"},
               {"dropout_add_layer_norm", 0, "bert.encoder.layer.1.output.LayerNorm"},
               {"feed_forward", 1, "bert.encoder.layer.0.feed_forward"},
               {"attention", 1, "bert.encoder.layer.0.attention"},
               {"joint_linear", 1, "bert.encoder.layer.0.attention.self.qkv"}};
  for (const auto& wrong : cases) {
    const WrongKernel plant(wrong.op, wrong.n, 0.05);
    const Comparison result = compare_tiny(tiny, {.a = "fp32", .b = "fp16", .steps = 1});
    CAPTURE(comparison_text(result));
    REQUIRE(result.outside);
    CHECK(result.outside->op == wrong.op);
    CHECK(result.outside->scope == wrong.scope);
    CHECK(result.outside->backward);
  }
}

TEST_CASE("compare: the same dtype twice is the same run; another drifts, and says how far") {
  const TinyRun tiny;
  const Comparison same = compare_tiny(tiny, {.a = "fp32", .b = "off", .steps = 3, .check_every = 0});
  CHECK(same.forward_calls == 0);
  for (const CompareStep& step : same.steps) {
    CHECK(step.gap() == 0);
    CHECK(step.cosine == doctest::Approx(1).epsilon(1e-12));
  }
  for (const Accumulated& layer : same.accumulated) CHECK(layer.last == 0);
  const Comparison low = compare_tiny(tiny, {.a = "fp32", .b = "bf16", .steps = 3, .check_every = 2});
  CHECK(low.layers == std::vector<std::string>{"embeddings", "encoder.layer.0", "encoder.layer.1", "classifier"});
  CHECK(low.accumulated.size() == 4);
  for (const Accumulated& layer : low.accumulated) {
    CHECK(layer.first > 1e-4);
    CHECK(layer.first < 0.05);
  }
  for (const CompareStep& step : low.steps) {
    CHECK(std::abs(step.gap()) < 0.05);
    CHECK(step.cosine > 0.98);
    CHECK(step.cosine < 1);
    REQUIRE(step.cosines.size() == 4);
  }
  // Steps 1 and 3 were checked, not 2.
  const Comparison all = compare_tiny(tiny, {.a = "fp32", .b = "bf16", .steps = 3});
  CHECK(low.forward_calls < all.forward_calls);
  CHECK(3 * low.backward_calls == 2 * all.backward_calls);
}

TEST_CASE("compare: an overflow is no wrong op, and a skipped step says so") {
  const TinyRun tiny;
  const Comparison result = compare_tiny(tiny, {.a = "fp32", .b = "fp16", .steps = 2}, {"amp.init_scale=16777216"});
  CAPTURE(comparison_text(result));
  CHECK_FALSE(result.outside);
  CHECK(result.steps[0].outcome_b == "skipped_overflow");
  CHECK(result.steps[0].outcome_a == "applied");
  CHECK(std::isnan(result.steps[0].cosine));
  CHECK(contains(comparison_text(result), "b: skipped_overflow"));
}

TEST_CASE("compare: layers of names") {
  CHECK(layer_of("bert.encoder.layer.11.attention.self.query.weight") == "encoder.layer.11");
  CHECK(layer_of("bert.encoder.layer.1") == "encoder.layer.1");
  CHECK(layer_of("bert.embeddings.LayerNorm.bias") == "embeddings");
  CHECK(layer_of("bert.pooler.dense.weight") == "pooler");
  CHECK(layer_of("classifier.weight") == "classifier");
  CHECK(layer_of("") == "");
}

TEST_CASE("compare from outside: text, JSON, picture, errors") {
  const TinyRun tiny;
  const std::string base = "inspect compare '" + tiny.config_path() + "' ";
  const tests::ProgramResult page = run_program(base + "--steps 2 --svg '" + tiny.path("a.svg") + "'");
  CAPTURE(page.err);
  CHECK(page.exit_code == 0);
  CHECK(contains(page.out, "a = fp32, b = fp16 (policy native)"));
  CHECK(contains(page.out, ": all within their bounds\n"));
  CHECK(contains(tests::slurp(tiny.path("a.svg")), "loss gap"));
  CHECK(tests::svg_label_fault(tests::slurp(tiny.path("a.svg"))) == "");
  const json result = json::parse(run_program(base + "--a off --b bf16 --steps 2 --json").out);
  CHECK(result["a"] == "off");
  CHECK(result["steps"].size() == 2);
  CHECK(result["steps"][0]["cosines"].size() == 4);
  CHECK(result["ops"]["outside"].is_null());
  CHECK(result["ops"]["closest"]["of_bound"].get<double>() < 1);
  CHECK(result["accumulated"].size() == 4);
  CHECK(run_program(base + "--b fp8").exit_code == 2);
  CHECK(run_program(base + "--steps 0").exit_code == 2);
  CHECK(contains(run_program(base + "--steps 999").err, "E-REPLAY-STEP"));
  CHECK(run_program("inspect compare /nowhere.json").exit_code == 2);
  CHECK(run_program("inspect compare").exit_code == 2);
  CHECK(run_program(base + "--steps 1 --svg /nowhere/a.svg").exit_code == 5);
  CHECK(run_program(base + "--set amp.dtyp=fp16").exit_code == 2);
}

}  // namespace mixtape::inspect

// mixtape bench step and machine: what they say beside the median, and that it is true.
#include <doctest/doctest.h>

#include "amp/autocast.h"
#include "amp/policy.h"
#include "autograd/backward.h"
#include "core/context.h"
#include "core/factory.h"
#include "ops/ops.h"
#include "tests/tiny_run.h"
#include "tools/trainer/step_profile.h"

namespace mixtape::tools {
namespace {

using nlohmann::json;
using tests::contains;
using tests::ProgramResult;
using tests::run_program;
using tests::TinyRun;
using trainer::Profile;

std::string bench(const TinyRun& tiny, const std::string& options) {
  return "bench step --config '" + tiny.config_path() + "' --batch 2 --seq 8 --no-floor " + options;
}

json found(const std::string& command) {
  const ProgramResult result = run_program(command + " --json");
  CAPTURE(command);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

double share_of(const json& line, const std::string& name) {
  for (const json& row : line.at("classes")) {
    if (row.at("class") == name) return row.at("share");
  }
  return -1;
}

/// What an observer hears of work, in order.
class Heard {
 public:
  Heard() : observer_{.on_enter = &Heard::enter, .on_leave = &Heard::leave, .self = this} {}
  Observer& observer() { return observer_; }
  std::string take() { return std::exchange(words_, ""); }

 private:
  static void enter(void* self, std::string_view work) { static_cast<Heard*>(self)->words_ += std::string(work) + "("; }
  static void leave(void* self) { static_cast<Heard*>(self)->words_ += ")"; }

  Observer observer_;
  std::string words_;
};

}  // namespace

TEST_CASE("observer: casts and gradient sums are work of their own, wherever they come from") {
  const Tensor x = full({2, 3}, 1.0).set_requires_grad(), w = full({4, 3}, 0.5).set_requires_grad();
  Heard heard;
  const ObserverGuard guard(heard.observer());
  Tensor loss;
  {
    const amp::Autocast autocast(amp::make_rule(amp::Policy::load("native"), DType::bf16));
    const Tensor y = ops::linear(x, w);
    CHECK(heard.take() == "cast()cast()linear()");
    loss = ops::sum(ops::add(y, y));
    (void)heard.take();
  }
  autograd::backward(loss);
  const std::string sweep = heard.take();
  CAPTURE(sweep);
  CHECK(contains(sweep, "add()gradient sum()linear()"));  // both slopes of y meet
  CHECK(contains(sweep, "sum()cast()add()"));             // f32 before a 16-bit op: the sweep narrows it
  CHECK(sweep.ends_with("cast()gradient sum()"));         // the leaf's own
}

TEST_CASE("profile: products count by their shapes, both ways, for what is multiplied in their dtype") {
  const Tensor x = full({3, 4}, 1.0).set_requires_grad(), w = full({5, 4}, 0.5).set_requires_grad();
  const Tensor v = full({5, 5}, 0.5).set_requires_grad(), b = zeros({5}).set_requires_grad();
  const Tensor offsets = from_ints({0, 2, 3}, {3});
  Profile profile;
  const ObserverGuard guard(profile.observer());
  profile.phase(Profile::tape);
  const Tensor y = ops::linear(x, w);                                  // 2·3·4·5
  const Tensor z = ops::feed_forward(y, v, b, v, b);                   // 2·3·5·5, twice
  const Tensor a = ops::attention(z, z, z, {offsets, 2, {}}, 1, 0.0);  // 2·5·(2·2 + 1·1), twice
  const Tensor out = ops::matmul(a, v);                                // 2·3·5·5
  (void)ops::joint_linear(x.detach(), {w.detach(), w.detach()}, {b.detach(), b.detach()});  // 2·3·4·10
  const double forward = 120 + 300 + 100 + 150 + 240;
  CHECK(profile.fused_rows() == std::vector<std::string>{"attention", "feed_forward", "joint_linear"});
  SUBCASE("a forward alone") {
    profile.end_step();
    CHECK(profile.flops(DType::f32) == forward);
  }
  SUBCASE("a step") {
    profile.phase(Profile::tape, true);
    autograd::backward(ops::sum(out));
    profile.end_step();
    CHECK(profile.flops(DType::f32) == forward + 2 * (120 + 300 + 150 + 240) + 2.5 * 100);
    CHECK(profile.flops(DType::bf16) == 0);
  }
}

TEST_CASE("bench infer: what is allocated at most is what forwards of this shape need, not the making of the model") {
  const auto peak = [](int64_t batch, int64_t seq) {
    const json line = found(message("bench infer --no-floor --steps 1 --warmup 1 --batch ", batch, " --seq ", seq,
                                    " --set amp.dtype=off --set threads=1 --set model.config.num_hidden_layers=1 --set "
                                    "model.config.hidden_size=64 --set model.config.num_attention_heads=2"));
    return std::pair(line.at("peak_bytes").get<double>(), 4 * line.at("parameters").get<double>());
  };
  const auto [small, weights] = peak(1, 8);
  CHECK(small > weights);
  CHECK(small < 1.1 * weights);
  const auto [large, same] = peak(32, 256);
  CHECK(same == weights);
  const double inner = 32 * 256 * 3072 * 4.0;  // one tensor of the feed-forward is live beside x at some time
  CHECK(large > weights + 0.05 * inner);
  CHECK(large < weights + 3 * inner);
}

TEST_CASE("profile: a class is charged between start and end, a phase for the rest") {
  Profile profile;
  const Observer& observer = profile.observer();
  const auto wait = [] {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2)) {
    }
  };
  profile.phase(Profile::tape);
  {
    const Working outer(&observer, "checkpoint");
    const Working inner(&observer, "linear");
    wait();
  }
  profile.phase(Profile::optimizer, true);
  wait();
  profile.end_step();
  CHECK(profile.seconds_of("matrix products") >= 0.002);
  CHECK(profile.seconds_of(Profile::optimizer) >= 0.002);
  CHECK(profile.seconds_of("checkpoint") + profile.seconds_of(Profile::tape) < 0.001);
  CHECK(profile.seconds() >= 0.004);
  CHECK(profile.classes().front().sum() >= profile.classes().back().sum());
}

TEST_CASE("bench step: shares of all classes make a whole, and casts are one of them") {
  const TinyRun tiny;
  for (const std::string dtype : {"off", "bf16"}) {
    const json line = found(bench(tiny, "--set amp.dtype=" + dtype));
    double sum = 0;
    for (const json& row : line.at("classes")) sum += row.at("share").get<double>();
    CHECK(sum == doctest::Approx(1));
    for (const char* name :
         {"matrix products", "attention", "next batch", "norm and clipping", "optimizer", "the tape"})
      CHECK(share_of(line, name) > 0);
    CHECK((share_of(line, "casts") > 0) == (dtype == "bf16"));
    CHECK(line.at("floor").is_null());
  }
}

TEST_CASE("bench step: the floor, and how far the step is from it") {
  const TinyRun tiny;
  const std::string command = "bench step --config '" + tiny.config_path() + "' --batch 2 --seq 8 ";
  const json line = found(command), floor = line.at("floor");
  CHECK(floor.at("seconds") > 0);
  CHECK(floor.at("ratio") > 1);
  CHECK(floor.at("step_s") == line.at("median_s"));
  CHECK(floor.at("products_s").get<double>() + floor.at("optimizer_s").get<double>() ==
        doctest::Approx(floor.at("seconds")));
  // Weights and two moments in and out, the gradient in.
  CHECK(floor.at("optimizer_bytes") == line.at("parameters").get<double>() * 28);
  CHECK(found(command + "--set optimizer.type=sgd").at("floor").at("optimizer_bytes") < floor.at("optimizer_bytes"));
  const std::string text = run_program(command + "--set amp.dtype=bf16").out;
  CAPTURE(text);
  for (const char* word : {"matrix products", "the tape", "casts", "% of the triad", "step is ", " x the floor"})
    CHECK(contains(text, word));
  CHECK_FALSE(contains(run_program(command + "--no-floor").out, "floor"));
}

TEST_CASE("bench step: equal bits from run to run, no block from the system after the second step") {
  const TinyRun tiny;
  for (const std::string dtype : {"off", "bf16"}) {
    const std::string command = bench(tiny, "--steps 3 --set amp.dtype=" + dtype);
    const json first = found(command), second = found(command), other = found(command + " --set trainer.seed=7");
    for (const char* key : {"losses_xxh3", "weights_xxh3", "loss"}) {
      CHECK(first.at(key) == second.at(key));
      CHECK(first.at(key) != other.at(key));
    }
    CHECK(first.at("system_allocations").size() == 5);
    CHECK(first.at("system_allocations")[0] > 0);
    CHECK(first.at("allocations_from_step_3") == 0);
  }
  CHECK(found(bench(tiny, "--steps 2 --warmup 0")).at("allocations_from_step_3").is_null());
}

TEST_CASE("bench step: fused rows run composed, all or those that are named") {
  const TinyRun tiny;
  using Names = std::vector<std::string>;
  const json fused = found(bench(tiny, "")), one = found(bench(tiny, "--composed attention"));
  const json all = found(bench(tiny, "--composed"));
  CHECK(fused.at("composed") == Names{});
  const Names rows{"attention", "dropout_add_layer_norm", "embed_layer_norm", "feed_forward", "joint_linear"};
  const auto without = [&](std::initializer_list<const char*> composed) {
    Names left = rows;
    for (const char* row : composed) std::erase(left, row);
    return left;
  };
  CHECK(fused.at("fused_rows") == rows);
  CHECK(one.at("composed") == Names{"attention"});
  CHECK(one.at("fused_rows") == without({"attention"}));
  CHECK(share_of(one, "attention") == -1);
  CHECK(all.at("fused_rows") == Names{});
  CHECK(all.at("composed").size() == 6);  // cross_entropy too, which this model has no use for
  CHECK(found(bench(tiny, "--composed attention,feed_forward")).at("fused_rows") ==
        without({"attention", "feed_forward"}));
  CHECK(one.at("loss").get<double>() == doctest::Approx(fused.at("loss").get<double>()).epsilon(1e-5));
  CHECK(fused.at("saved_bytes") < all.at("saved_bytes"));
  for (const std::string wrong : {"atention", "attention,", "linear"}) {
    const ProgramResult result = run_program(bench(tiny, "--composed " + wrong));
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err,
                   "expected attention, cross_entropy, dropout_add_layer_norm, embed_layer_norm, "
                   "feed_forward, joint_linear"));
  }
}

TEST_CASE("bench step: what it costs to be watchable is counted") {
  const TinyRun tiny;
  const json fused = found(bench(tiny, "--steps 1")), composed = found(bench(tiny, "--steps 1 --composed"));
  CHECK(fused.at("observer_checks") > 100);
  CHECK(composed.at("observer_checks") > fused.at("observer_checks"));
  CHECK(fused.at("observer_check_ns") > 0);
  const double share = fused.at("observer_share");
  CHECK(share == doctest::Approx(fused.at("observer_checks").get<double>() * 1e-9 *
                                 fused.at("observer_check_ns").get<double>() / fused.at("median_s").get<double>()));
}

TEST_CASE("bench step: in bf16 a graph keeps half; the copies of weights that the first step makes are not its own") {
  const TinyRun tiny;
  const double wide = found(bench(tiny, "--warmup 0 --steps 1")).at("saved_bytes");
  const double low = found(bench(tiny, "--warmup 0 --steps 1 --set amp.dtype=bf16")).at("saved_bytes");
  CHECK(low < 0.6 * wide);
  CHECK(low > 0.4 * wide);
}

TEST_CASE("bench machine: products and memory") {
  const json line = found("bench machine");
  for (const char* key : {"gemm_f32_gflops", "gemm_bf16_gflops", "triad_gb_per_s", "threads"}) CHECK(line.at(key) > 0);
  CHECK(line.at("triad_array_bytes") >= 64 << 20);
  const std::string text = run_program("bench machine").out;
  for (const char* word : {"GFLOP/s", "GB/s", "write-allocate"}) CHECK(contains(text, word));
}

}  // namespace mixtape::tools

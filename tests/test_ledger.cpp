#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "amp/products.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "core/factory.h"
#include "core/kernels/gemm.h"
#include "ops/ops.h"
#include "optim/sgd.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using amp::Autocast;
using amp::Ledger;
using amp::LedgerRow;

// Two layers of four units over two rows; returns the loss.
struct Model {
  Tensor table = full({10, 4}, 0.1).set_requires_grad();
  Tensor w[2] = {full({4, 4}, 0.1).set_requires_grad(), full({4, 4}, 0.1).set_requires_grad()};
  Tensor loss() const {
    const Autocast guard(DType::bf16);
    Tensor x = ops::embedding(table, from_ints({1, 2}, {2}));
    for (int i = 0; i < 2; ++i) {
      const Scope layer(message("layer.", i));
      x = ops::gelu(ops::linear(x, w[i]));
    }
    return ops::sum(ops::reshape(x, {8}));
  }
};

const LedgerRow& row(const std::vector<LedgerRow>& rows, const std::string& op, const std::string& scope = "") {
  for (const LedgerRow& candidate : rows) {
    if (candidate.op == op && candidate.scope == scope) return candidate;
  }
  FAIL("no row ", op, " in '", scope, "'");
  return rows.front();
}

TEST_CASE("rows say what ran in which dtype, by which rule, with which casts and bytes") {
  const Model model;
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    autograd::backward(model.loss());
  }
  const LedgerRow& lookup = row(ledger.forward(), "embedding");
  CHECK(lookup.in == std::vector<DType>{DType::f32, DType::i64});
  CHECK(lookup.out == std::vector<DType>{DType::bf16});
  CHECK(lookup.compute == DType::f32);
  CHECK(lookup.rule == Rule::low_out);
  CHECK(lookup.bytes == 2 * 4 * 4 + 2 * 8 + 2 * 4 * 2);  // two rows of the table, the ids, the output

  const LedgerRow& first = row(ledger.forward(), "linear", "layer.0");
  CHECK(first.in == std::vector<DType>{DType::bf16, DType::bf16});
  CHECK(first.compute == DType::bf16);
  CHECK(first.rule == Rule::low);
  CHECK(first.calls == 1);
  CHECK(first.casts == 1);  // the weight; x is low already
  CHECK(first.bytes == 2 * 4 * 2 + 4 * 4 * 2 + 2 * 4 * 2);
  const LedgerRow& cast = row(ledger.forward(), "cast", "layer.0");
  CHECK(cast.in == std::vector<DType>{DType::f32});
  CHECK(cast.out == std::vector<DType>{DType::bf16});
  CHECK(cast.bytes == 16 * 4 + 16 * 2);
}

TEST_CASE("views move nothing, sums are cast, weight gradients are wide, totals add up") {
  const Model model;
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    autograd::backward(model.loss());
  }
  CHECK(row(ledger.forward(), "gelu", "layer.1").compute == DType::f32);
  CHECK(row(ledger.forward(), "reshape").bytes == 0);
  CHECK(row(ledger.forward(), "reshape").compute == DType::bf16);
  CHECK(row(ledger.forward(), "sum").in == std::vector<DType>{DType::f32});
  CHECK(row(ledger.forward(), "sum").casts == 1);

  const LedgerRow& back = row(ledger.backward(), "linear", "layer.1");
  CHECK(back.in == std::vector<DType>{DType::bf16});
  CHECK(back.out == std::vector<DType>{DType::bf16, DType::f32});  // the weight's gradient is wide

  const amp::LedgerTotals totals = ledger.totals();
  CHECK(totals.casts == 3);
  CHECK(totals.cast_bytes == 2 * (16 * 4 + 16 * 2) + 8 * 2 + 8 * 4);
  CHECK(totals.cast_share ==
        doctest::Approx(static_cast<double>(totals.cast_bytes) / static_cast<double>(totals.bytes)));
}

TEST_CASE("a cast that a fresh shadow stands for moves nothing; one after a load does") {
  const Model model;
  optim::SGD optimizer({{"table", model.table}, {"w0", model.w[0]}, {"w1", model.w[1]}});
  const auto cast_bytes = [&] {
    Ledger ledger;
    const ObserverGuard guard(ledger.observer());
    autograd::backward(model.loss());
    CHECK(row(ledger.forward(), "cast", "layer.0").calls == 1);
    return row(ledger.forward(), "cast", "layer.0").bytes;
  };
  CHECK(cast_bytes() == 96);
  CHECK(cast_bytes() == 0);
  CHECK(optimizer.step().applied());  // its pass writes the shadow along
  CHECK(cast_bytes() == 0);
  assign(model.w[0], full({4, 4}, 0.5));
  CHECK(cast_bytes() == 96);
}

TEST_CASE("equal calls share a row; a closed guard sees nothing more") {
  const Tensor x = full({2}, 1);
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    for (int i = 0; i < 3; ++i) ops::gelu(x);
  }
  ops::gelu(x);
  REQUIRE(ledger.forward().size() == 1);
  CHECK(ledger.forward()[0].calls == 3);
  CHECK(ledger.forward()[0].bytes == 3 * 16);
}

TEST_CASE("ops that a backward calls are no forward calls; a recomputed part is seen once, its nodes in the sweep") {
  const Tensor x = full({8}, 1).set_requires_grad();
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    const Tensor y = autograd::checkpoint([](const Tensors& in) -> Tensors { return {ops::gelu(in[0])}; }, {x})[0];
    autograd::backward(ops::sum(ops::dropout(y, 0.5)));
  }
  CHECK(row(ledger.forward(), "gelu").calls == 1);
  CHECK(row(ledger.forward(), "dropout").calls == 1);
  CHECK(row(ledger.backward(), "dropout").calls == 1);
  CHECK(row(ledger.backward(), "gelu").calls == 1);
}

TEST_CASE("as JSON: ops, backward and totals") {
  const Model model;
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    autograd::backward(model.loss());
  }
  const nlohmann::json json = nlohmann::json::parse(ledger.json());
  const auto linear = std::find_if(json["ops"].begin(), json["ops"].end(),
                                   [](const nlohmann::json& entry) { return entry["op"] == "linear"; });
  REQUIRE(linear != json["ops"].end());
  CHECK(*linear == nlohmann::json::parse(R"({"op": "linear", "scope": "layer.0", "calls": 1, "in": ["bf16", "bf16"],
      "compute": "bf16", "accum": "f32", "out": "bf16", "rule": "low", "casts": 1, "bytes": 64, "flops": 64.0,
      "why": "product of 16-bit values"})"));
  CHECK(json["backward"].size() == ledger.backward().size());
  CHECK(json["totals"]["casts"] == 3);
  CHECK(json["totals"].contains("cast_share"));
  CHECK(json["totals"]["flops"] == 128);  // 2·2·4·4, twice
  CHECK(json["totals"]["low_flops"] == 128);
  CHECK(json["multiplied_in"] == (kernels::gemm_native_bf16() ? "bf16" : "f32"));
  CHECK_FALSE(json.contains("first_step"));
  const amp::LedgerTotals first = ledger.totals();
  CHECK(nlohmann::json::parse(ledger.json(&first))["first_step"] == json["totals"]);
}

TEST_CASE("what is multiplied, what sums are in, and what this CPU multiplies with are three things") {
  const Model model;
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    (void)model.loss();
  }
  CHECK(row(ledger.forward(), "linear", "layer.0").compute == DType::bf16);
  CHECK(row(ledger.forward(), "linear", "layer.0").accum == DType::f32);
  CHECK(row(ledger.forward(), "sum").accum == DType::f32);
  for (const char* op : {"gelu", "cast"}) CHECK_FALSE(row(ledger.forward(), op, "layer.0").accum);
  for (const char* op : {"embedding", "reshape"}) CHECK_FALSE(row(ledger.forward(), op).accum);
  CHECK(amp::multiplied_in(DType::f16) == DType::f32);  // no CPU of ours has them
  const std::string says = "this CPU multiplies bf16 values in f32, which is exact";
  CHECK(tests::contains(ledger.text(), says) == !kernels::gemm_native_bf16());
  std::vector<LedgerRow> rows = ledger.forward();
  for (LedgerRow& each : rows) each.compute = each.compute == DType::bf16 ? DType::f16 : each.compute;
  CHECK(tests::contains(amp::product_note(rows), "this CPU multiplies f16 values in f32, which is exact"));
  for (LedgerRow& each : rows) each.compute = DType::f32;
  CHECK(amp::product_note(rows).empty());
}

/// Whether an element of the first output hangs on two elements of one input, as a sum does: by the oracle, moving one
/// element after the other.
bool mixes_elements(const OpSchema& op, const AnySample& sample) {
  Arrays in;
  for (const Arg& arg : sample.args) {
    Array array{arg.shape, arg.values};
    for (int64_t i = std::ssize(array.values); i < arg.shape.numel(); ++i)
      array.values.push_back(arg.low +
                             (arg.high - arg.low) * (0.1 + 0.8 * std::fmod(0.37 * static_cast<double>(i), 1)));
    in.push_back(arg.absent ? Array{} : array);
  }
  const std::vector<double> before = op.oracle(sample.attrs.get(), in)[0].values;
  for (size_t input = 0; input < in.size(); ++input) {
    if (sample.args[input].absent || sample.args[input].dtype != DType::f32) continue;
    std::vector<int> hangs(before.size(), 0);
    for (double& element : in[input].values) {
      const double was = std::exchange(element, element + 1e-3);
      const std::vector<double> now = op.oracle(sample.attrs.get(), in)[0].values;
      for (size_t i = 0; i < now.size(); ++i) hangs[i] += now[i] != before[i] && !std::isnan(before[i]) ? 1 : 0;
      element = was;
    }
    if (std::any_of(hangs.begin(), hangs.end(), [](int n) { return n > 1; })) return true;
  }
  return false;
}

TEST_CASE("the ops that say what their sums are in are those whose outputs hang on several elements of an input") {
  for (const OpSchema* op : registry()) {
    CAPTURE(op->info->name);
    if (!op->samples || !op->oracle) continue;
    bool mixes = false;
    for (const AnySample& sample : op->samples()) {
      int64_t elements = 0;
      for (const Arg& arg : sample.args) elements += arg.absent ? 0 : arg.shape.numel();
      if (sample.error.empty() && elements < 400) mixes = mixes || mixes_elements(*op, sample);
    }
    const bool takes_the_largest = op->info->name == "max";  // hangs on those alone that are as large
    CHECK(amp::sums(*op) == (mixes && !takes_the_largest));
  }
}

TEST_CASE("a first step that casts no more than the next has no line") {
  const amp::LedgerTotals warm{.calls = 3, .bytes = 1000, .cast_bytes = 100, .cast_share = 0.1};
  amp::LedgerTotals first = warm;
  CHECK(amp::first_step_note(first, warm).empty());
  first = {.calls = 3, .bytes = 3'000'900, .cast_bytes = 3'000'100, .cast_share = 0.75};
  CHECK(tests::contains(amp::first_step_note(first, warm), "moves 3.000 MB more (75.0 % of its bytes are casts)"));
}

TEST_CASE("as text: numbered places stand together") {
  const Model model;
  Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    autograd::backward(model.loss());
  }
  const std::string text = ledger.text();
  CHECK(tests::contains(text,
                        "linear                 2  bf16 bf16       bf16     f32    bf16  low           2     0.000   "
                        "0.0000  product of 16-bit values     layer.*\n"));
  CHECK(tests::contains(text, " casts, "));
  CHECK_FALSE(tests::contains(text, "layer.0"));
}

}  // namespace
}  // namespace mixtape

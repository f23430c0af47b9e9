#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "core/factory.h"
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
      "compute": "bf16", "out": "bf16", "rule": "low", "casts": 1, "bytes": 64, "flops": 64.0,
      "why": "product in 16 bits"})"));
  CHECK(json["backward"].size() == ledger.backward().size());
  CHECK(json["totals"]["casts"] == 3);
  CHECK(json["totals"].contains("cast_share"));
  CHECK(json["totals"]["flops"] == 128);  // 2·2·4·4, twice
  CHECK(json["totals"]["low_flops"] == 128);
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
                        "linear                 2  bf16 bf16       bf16     bf16  low           2     0.000   0.0000  "
                        "product in 16 bits           "
                        "layer.*\n"));
  CHECK(tests::contains(text, " casts, "));
  CHECK_FALSE(tests::contains(text, "layer.0"));
}

}  // namespace
}  // namespace mixtape

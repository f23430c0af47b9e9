// inspect ledger --errors: how far ops are from the same in f64.
#include <doctest/doctest.h>

#include "tests/tiny_run.h"
#include "tools/inspect/ledger.h"

namespace mixtape::tests {
namespace {

/// Errors of a tiny step by op, the largest of its rows; -1 where a row has none.
std::map<std::string, double> ledger_errors(const std::string& dtype) {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  amp::Ledger ledger(inspect::error_against_f64);
  (void)inspect::run_ledger(tiny.config({"amp.dtype=" + dtype}), false, quiet, ledger);
  std::map<std::string, double> out;
  for (const amp::LedgerRow& row : ledger.forward()) {
    const double error = row.error.value_or(-1);
    const auto [at, fresh] = out.try_emplace(row.op, error);
    if (!fresh) at->second = std::max(at->second, error);
  }
  return out;
}

}  // namespace

TEST_CASE("inspect ledger --errors: a rounding of the dtype that each op writes, and none of those before it") {
  const struct {
    const char* dtype;
    double least, most;  // of a linear, whose output is rounded once: up to half an eps of the largest element
  } expected[] = {{"off", 0, 1e-6}, {"fp16", 1e-5, 0x1p-11 * 1.02}, {"bf16", 1e-4, 0x1p-8 * 1.02}};
  for (const auto& e : expected) {
    CAPTURE(e.dtype);
    std::map<std::string, double> errors = ledger_errors(e.dtype);
    CHECK(errors.at("linear") >= e.least);
    CHECK(errors.at("linear") <= e.most);
    CHECK(errors.at("reshape") == -1);           // a view
    CHECK(errors.at("bce_with_logits") < 1e-6);  // f32 in every dtype
  }
}

TEST_CASE("inspect ledger: a warm step, whose casts are not those of the first") {
  const TinyRun tiny;
  const std::string command = "inspect ledger '" + tiny.config_path() + "' --set amp.dtype=";
  const auto document = nlohmann::json::parse(run_program(command + "fp16 --json").out);
  CHECK(document.at("first_step").at("cast_share") > 0.05);
  CHECK(document.at("totals").at("cast_share") < 0.01);
  CHECK(document.at("first_step").at("casts") == document.at("totals").at("casts"));
  for (const auto& row : document.at("ops")) {
    if (row.at("op") == "cast" && row.at("scope") != "loss") CHECK(row.at("bytes") == 0);
  }
  CHECK(contains(run_program(command + "fp16").out, "the first step moves 0.0"));
  CHECK(contains(run_program(command + "fp16").out, " values in f32, which is exact"));
  // Weights without a copy are cast in every step.
  const std::string anew = run_program(command + "fp16 --set amp.parameter_storage=f32").out;
  CHECK(!contains(anew, "the first step moves"));
  CHECK(contains(anew, "for the rule of the next op"));
  const std::string off = run_program(command + "off").out;
  CHECK(!contains(off, "the first step moves"));
  CHECK(!contains(off, "which is exact"));
}

TEST_CASE("report: it says of its ledger what inspect ledger says, and that weight gradients are kept in f32") {
  const TinyRun tiny;
  for (const std::string dtype : {"off", "bf16", "fp16"}) {
    CAPTURE(dtype);
    const std::string run = "'" + tiny.path("run-" + dtype) + "'";
    REQUIRE(run_program("train '" + tiny.config_path() + "' -q -s " + run + " --set amp.dtype=" + dtype).exit_code ==
            0);
    REQUIRE(run_program("report " + run).exit_code == 0);
    const std::string html = slurp(tiny.path("run-" + dtype + "/report.html"));
    CHECK(contains(html, "<p>Weight gradients; this program keeps them in f32: the shares are what " +
                             std::string(dtype == "bf16" ? "bf16" : "f16") + " would make of them.</p>"));
    CHECK(contains(html, "<p>Activation gradients that the step stores in 16 bits.</p>"));
    CHECK(contains(html, "The first step moves 0.") == (dtype != "off"));
    CHECK(contains(html, "This CPU multiplies f16 values in f32, which is exact") == (dtype == "fp16"));
    CHECK(contains(html, "sums in</th>"));
  }
}

TEST_CASE("inspect ledger --errors: a column more, a member more, and neither without it") {
  const TinyRun tiny;
  const std::string command = "inspect ledger '" + tiny.config_path() + "' --set amp.dtype=fp16";
  const ProgramResult text = run_program(command + " --errors");
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "max rel err"));
  CHECK(!contains(run_program(command).out, "max rel err"));
  const auto document = nlohmann::json::parse(run_program(command + " --errors --json").out);
  for (const auto& row : document.at("ops")) {
    const bool computes =
        row.at("op") != "reshape" && row.at("op") != "split" && row.at("why") != "a weight's copy stands for it";
    CHECK(row.at("max_rel_err").is_null() == !computes);
  }
  CHECK(!nlohmann::json::parse(run_program(command + " --json").out).at("ops").at(0).contains("max_rel_err"));
}

}  // namespace mixtape::tests

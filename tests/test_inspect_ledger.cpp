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
  inspect::run_ledger(tiny.config({"amp.dtype=" + dtype}), false, quiet, ledger);
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

TEST_CASE("inspect ledger --errors: a column more, a member more, and neither without it") {
  const TinyRun tiny;
  const std::string command = "inspect ledger '" + tiny.config_path() + "' --set amp.dtype=fp16";
  const ProgramResult text = run_program(command + " --errors");
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "max rel err"));
  CHECK(!contains(run_program(command).out, "max rel err"));
  const auto document = nlohmann::json::parse(run_program(command + " --errors --json").out);
  for (const auto& row : document.at("ops"))
    CHECK(row.at("max_rel_err").is_null() == (row.at("op") == "reshape" || row.at("op") == "split"));
  CHECK(!nlohmann::json::parse(run_program(command + " --json").out).at("ops").at(0).contains("max_rel_err"));
}

}  // namespace mixtape::tests

#include "ops/optest.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "autograd/cast.h"
#include "ops/optest_checks.h"

namespace mixtape::optest {

std::string label(const Case& c, std::string_view check, DType dtype) {
  return message("sample ", c.index, ", ", check, " ", name_of(dtype));
}

namespace {

constexpr DType production[] = {DType::f32, DType::bf16, DType::f16};

void check_error(const Case& c, Checks& checks) {
  checks.at(message("sample ", c.index, ", error"));
  try {
    c.run(c.inputs(DType::f32));
    checks.expect(false, "did not throw \"" + c.sample.error + "\"");
  } catch (const Error& error) {
    const std::string what = error.what();
    checks.expect(what.find(c.sample.error) != std::string::npos,
                  "threw \"" + what + "\", without \"" + c.sample.error + "\"");
    checks.expect(what.find(c.op.info->name) != std::string::npos, "the message does not name the op: " + what);
  }
}

void check_sample(const Case& c, Checks& checks) {
  if (!c.sample.error.empty()) return check_error(c, checks);
  check_oracle(c, checks);
  if (!c.has_float_data()) return;
  if (autograd::is_cast(c.op) && !is_float(c.run(c.inputs(DType::f32))[0].dtype())) return;
  const bool differentiable = c.op.backward != nullptr;
  for (const DType dtype : production) {
    checks.run(label(c, "reference", dtype), [&] {
      const Reference ref(c, dtype, true);
      check_forward(c, dtype, ref, checks);
      if (!differentiable) return;
      if (dtype == DType::f32) {
        if (!autograd::is_cast(c.op)) {  // differences of a rounding are not its derivative
          check_gradient(c, ref, checks);
          check_second_order(c, ref, checks);
        }
        check_needs_grad(c, checks);
      }
      if (!autograd::is_cast(c.op)) check_backward(c, dtype, ref, checks);
    });
  }
  check_determinism(c, checks);
  check_autocast(c, DType::bf16, checks);
  check_autocast(c, DType::f16, checks);
}

}  // namespace

Report check_op(const OpSchema& op) {
  Report report{std::string(op.info->name), 0, {}};
  Checks checks(report);
  const std::vector<AnySample> samples = op.samples();
  check_kinds(op, samples, checks);
  for (size_t i = 0; i < samples.size(); ++i) check_sample(Case(op, samples[i], static_cast<int>(i)), checks);
  return report;
}

int run(int argc, char** argv) {
  std::vector<std::string_view> wanted;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--op") == 0) wanted.emplace_back(argv[i + 1]);
  }
  if (argc % 2 == 0 || static_cast<int>(wanted.size()) != argc / 2) {
    std::fprintf(stderr, "usage: %s [--op NAME]...\n", argv[0]);
    return 2;
  }
  int passed = 0, failed = 0;
  std::vector<const OpSchema*> rows = registry();
  if (!wanted.empty()) {
    rows.clear();
    for (std::string_view name : wanted) {
      if (const OpSchema* op = find_op(name)) {
        rows.push_back(op);
        continue;
      }
      std::printf("%.*s: no such row; did you mean '%.*s'?\n", static_cast<int>(name.size()), name.data(),
                  static_cast<int>(nearest_op(name).size()), nearest_op(name).data());
      ++failed;
    }
  }
  for (const OpSchema* op : rows) {
    const Report report = check_op(*op);
    std::printf("%-20s %5d passed %3d failed\n", report.op.c_str(), report.passed,
                static_cast<int>(report.failures.size()));
    for (size_t i = 0; i < std::min<size_t>(report.failures.size(), 20); ++i)
      std::printf("    %s\n", report.failures[i].c_str());
    passed += report.passed;
    failed += static_cast<int>(report.failures.size());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace mixtape::optest

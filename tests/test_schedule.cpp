#include <doctest/doctest.h>

#include <cmath>

#include "core/factory.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using optim::lr_at;
using optim::Outcome;
using optim::Schedule;
using optim::ScheduleKind;
using optim::SchedulePlan;
using optim::StepResult;
using optim::warmup_updates;

TEST_CASE("warm-up is the ratio of the plan, rounded up, and not by a rounding error of the product") {
  CHECK(warmup_updates(0.1, 1119) == 112);
  CHECK(warmup_updates(0.05, 50) == 3);
  CHECK(warmup_updates(0.1, 2235) == 224);
  CHECK(warmup_updates(0.07, 100) == 7);  // 0.07·100 is 7.000000000000001
  CHECK(warmup_updates(0.1, 1) == 1);
  CHECK(warmup_updates(0, 1000) == 0);
  CHECK(warmup_updates(1, 3) == 3);
  CHECK(warmup_updates(0.1, 0) == 0);
}

TEST_CASE("linear: up to the base, down to its last step above zero") {
  const SchedulePlan plan{ScheduleKind::linear, 2e-5, 12, 3};
  const double expected[] = {2e-5 / 3, 4e-5 / 3, 2e-5, 2e-5, 2e-5 * 8 / 9, 2e-5 * 7 / 9, 2e-5 * 6 / 9};
  for (int64_t u = 0; u < 7; ++u) CHECK(std::fabs(lr_at(plan, u) - expected[u]) < 1e-18);
  CHECK(lr_at(plan, 11) == doctest::Approx(2e-5 / 9));
  CHECK(lr_at(plan, 12) == 0);
  CHECK(lr_at(plan, 40) == 0);
}

TEST_CASE("cosine and constant share the warm-up") {
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::constant}) {
    const SchedulePlan plan{kind, 1.0, 10, 2};
    CHECK(lr_at(plan, 0) == 0.5);
    CHECK(lr_at(plan, 1) == 1.0);
    CHECK(lr_at(plan, 2) == 1.0);
  }
  const SchedulePlan cosine{ScheduleKind::cosine, 1.0, 10, 2};
  CHECK(lr_at(cosine, 4) == doctest::Approx(0.5 * (1 + std::cos(std::acos(-1.0) / 4))));
  CHECK(lr_at(cosine, 6) == doctest::Approx(0.5));
  CHECK(lr_at(cosine, 9) > 0);
  CHECK(lr_at(cosine, 10) == 0);
  CHECK(lr_at(cosine, 99) == 0);
  CHECK(lr_at({ScheduleKind::constant, 1.0, 10, 2}, 99) == 1.0);
}

TEST_CASE("edges: one update, only warm-up, no warm-up, nothing at all") {
  CHECK(lr_at({ScheduleKind::linear, 1.0, 1, 1}, 0) == 1.0);
  CHECK(lr_at({ScheduleKind::linear, 1.0, 1, 0}, 0) == 1.0);
  CHECK(lr_at({ScheduleKind::linear, 1.0, 3, 3}, 2) == 1.0);
  CHECK(lr_at({ScheduleKind::linear, 1.0, 3, 3}, 3) == 0.0);
  CHECK(lr_at({ScheduleKind::linear, 1.0, 0, 0}, 0) == 0.0);
  for (const ScheduleKind kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::constant}) {
    for (int64_t total = 1; total < 30; ++total) {
      for (int64_t warmup = 0; warmup <= total; ++warmup) {
        for (int64_t u = 0; u < total; ++u) {
          const double lr = lr_at({kind, 1.0, total, warmup}, u);
          CHECK((lr > 0 && lr <= 1.0));
        }
      }
    }
  }
}

TEST_CASE("the schedule moves with applied updates only") {
  const Tensor p = from({1}, {1}).set_requires_grad();
  optim::SGD optimizer({{"p", p}}, {.lr = 7});
  Schedule schedule(optimizer, {ScheduleKind::linear, 1.0, 10, 4});
  CHECK(optimizer.lr() == 0.25);  // the plan's, not the optimizer's own
  for (const StepResult result :
       {StepResult::skipped_overflow, StepResult::skipped_nonfinite_loss, StepResult::no_gradients}) {
    schedule.advance(Outcome(result));
    CHECK(schedule.updates() == 0);
    CHECK(optimizer.lr() == 0.25);
  }
  schedule.advance(Outcome(StepResult::applied));
  CHECK(schedule.updates() == 1);
  CHECK(optimizer.lr() == 0.5);
  schedule.restore(3);
  CHECK(optimizer.lr() == 1.0);
  CHECK(schedule.lr() == 1.0);
}

TEST_CASE("a plan that cannot be is refused, and a plan can say what it is") {
  optim::SGD optimizer(NamedTensors{});
  const auto made = [&](SchedulePlan plan) { return tests::error_text([&] { Schedule schedule(optimizer, plan); }); };
  CHECK(made({ScheduleKind::linear, 1.0, 3, 4}) ==
        "E-SCHEDULE: schedule: warm-up of 4 updates is longer than the whole run of 3");
  CHECK(made({ScheduleKind::linear, -1.0, 3, 0}).find("E-SCHEDULE") == 0);
  CHECK(made({ScheduleKind::linear, NAN, 3, 0}).find("E-SCHEDULE") == 0);
  CHECK(made({ScheduleKind::linear, 1.0, -3, 0}).find("E-SCHEDULE") == 0);
  CHECK(optim::describe({ScheduleKind::linear, 2e-5, 2235, 224}) == "warm-up 224 of 2235 steps, then linear to 0");
  CHECK(optim::describe({ScheduleKind::constant, 2e-5, 10, 1}) == "warm-up 1 of 10 steps, then constant");
  ScheduleKind kind;
  CHECK((optim::parse_schedule("cosine", kind) && kind == ScheduleKind::cosine));
  CHECK_FALSE(optim::parse_schedule("exponential", kind));
}

}  // namespace
}  // namespace mixtape

#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/factory.h"

namespace mixtape::optim {
namespace {

constexpr std::string_view kind_names[] = {"linear", "cosine", "constant"};

void check(const SchedulePlan& plan) {
  const auto refuse = [](const std::string& what) { fail(ErrorKind::config, "E-SCHEDULE", "schedule: " + what); };
  if (plan.total < 0 || plan.warmup < 0) refuse("total and warm-up updates must be >= 0");
  if (plan.warmup > plan.total) {
    refuse(message("warm-up of ", plan.warmup, " updates is longer than the whole run of ", plan.total));
  }
  if (!std::isfinite(plan.base_lr) || plan.base_lr < 0) {
    refuse(message("base rate ", plan.base_lr, ": must be finite and >= 0"));
  }
}

}  // namespace

std::string_view name_of(ScheduleKind kind) { return kind_names[static_cast<int>(kind)]; }
bool parse_schedule(std::string_view name, ScheduleKind& out) {
  const auto* found = std::find(std::begin(kind_names), std::end(kind_names), name);
  if (found == std::end(kind_names)) return false;
  out = static_cast<ScheduleKind>(found - std::begin(kind_names));
  return true;
}

int64_t warmup_updates(double ratio, int64_t total) {
  return static_cast<int64_t>(std::ceil(ratio * static_cast<double>(total) - 1e-9));
}

double lr_at(const SchedulePlan& plan, int64_t updates) { return scheduled_rate(plan, updates); }

std::string describe(const SchedulePlan& plan) {
  return message("warm-up ", plan.warmup, " of ", plan.total, " steps, then ",
                 plan.kind == ScheduleKind::constant ? "constant" : message(name_of(plan.kind), " to 0"));
}

Schedule::Schedule(Optimizer& optimizer, const SchedulePlan& plan) : optimizer_(optimizer), plan_(plan) {
  check(plan_);
  restore(0);
}

void Schedule::advance(const Outcome& outcome) {
  if (const RecordHandle* record = outcome.record()) {
    if (!updates_there_) updates_there_ = to(from_ints({updates_}, {1}), record->bytes.device());
    known_ = false;
    return optimizer_.advance(outcome, plan_, updates_there_);
  }
  if (outcome.applied()) restore(updates_ + 1);
}

int64_t Schedule::updates() const {
  if (!known_) updates_ = static_cast<int64_t>(updates_there_.item());
  known_ = true;
  return updates_;
}

void Schedule::restore(int64_t updates) {
  updates_ = updates;
  known_ = true;
  updates_there_ = {};
  optimizer_.set_lr(lr());
}

}  // namespace mixtape::optim

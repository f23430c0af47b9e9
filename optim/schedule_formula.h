// The learning rate of a plan as one formula for both machines: on a GPU the count of applied updates is known there
// alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/hd.h"

namespace mixtape::optim {

enum class ScheduleKind { linear, cosine, constant };

/// T planned updates, W of them warm-up (for every kind).
struct SchedulePlan {
  ScheduleKind kind = ScheduleKind::linear;
  double base_lr = 1e-3;
  int64_t total = 1;   ///< T
  int64_t warmup = 0;  ///< W
};

/// lr_at (optim/schedule.h).
MIXTAPE_HD inline double scheduled_rate(const SchedulePlan& plan, int64_t updates) {
  const double base = plan.base_lr;
  if (updates < plan.warmup) return base * static_cast<double>(updates + 1) / static_cast<double>(plan.warmup);
  if (plan.kind == ScheduleKind::constant) return base;
  const int64_t after = plan.total - plan.warmup, rest = plan.total - updates;
  const double span = static_cast<double>(after < 1 ? 1 : after), left = static_cast<double>(rest < 0 ? 0 : rest);
  if (plan.kind == ScheduleKind::linear) return base * left / span;
  const double share = left / span < 1.0 ? left / span : 1.0;
  return base * 0.5 * (1 + ::cos(3.14159265358979323846 * (1 - share)));
}

}  // namespace mixtape::optim

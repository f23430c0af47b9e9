// The rule of an optimizer: what a formula becomes for one parameter and one step, on both machines.
#pragma once

#include <cstdint>

#include "core/device_row.h"
#include "core/hd.h"

namespace mixtape::optim {

/// What a rule may know of one parameter in one step. On a device these are known there alone.
struct UpdateFacts {
  double multiplier = 1;  ///< of its gradient
  double lr = 0;          ///< its own, of this step
  double weight_decay = 0;
  int64_t steps = 0;  ///< how often it was updated, this step included
};

/// At namespace scope beside an optimizer: gives its rule to devices, under Rule::name. A rule is a plain struct with
///   static constexpr const char* name;
///   MIXTAPE_HD Formula formula(const UpdateFacts& facts) const;     // over Block<M>, optim/block.h
template <class Rule>
struct RegisterRule;

}  // namespace mixtape::optim

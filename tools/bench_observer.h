// What a step pays for being watchable when nobody watches: its checks for an observer, and the time of one.
#pragma once

#include <cstdint>

#include "core/op.h"

namespace mixtape::tools {

/// Hands everything on to another observer and counts the checks that would have found none: three a call (may inputs
/// be kept, is there a cast to tell of, a call to tell of), one a node of the sweep, two around what runs.
class CheckCount {
 public:
  explicit CheckCount(Observer& inner);
  CheckCount(const CheckCount&) = delete;  // the observer points here
  CheckCount& operator=(const CheckCount&) = delete;

  Observer& observer() { return observer_; }
  int64_t checks() const { return checks_; }

 private:
  Observer& inner_;
  Observer observer_;
  int64_t checks_ = 0;
};

/// Of one check of the context for an observer that is not there, measured here and now.
double seconds_of_check();

}  // namespace mixtape::tools

// A policy of one's own.
#include "amp/policy.h"

#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const amp::Policy policy = amp::Policy::parse(bytes, "fuzz.json");
  require(policy.dynamic_scale || policy.static_scale > 0, "a scale is above zero");
  (void)amp::make_rule(policy, DType::f16);
}

}  // namespace mixtape::fuzz

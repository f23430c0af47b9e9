// expect: Required
#include "core/op.h"

// `precision` has no default: an op cannot forget its rule.
constexpr mixtape::OpInfo info{.name = "forgetful", .inputs = {mixtape::Input{"x"}}};

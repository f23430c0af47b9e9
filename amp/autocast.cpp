#include "amp/autocast.h"

namespace mixtape::amp {
namespace {

// Rules are immutable: the two of the native policy are made once.
std::shared_ptr<const CastRule> native_rule(DType low) {
  static const std::shared_ptr<const CastRule> f16 = make_rule(Policy::load("native"), DType::f16);
  static const std::shared_ptr<const CastRule> bf16 = make_rule(Policy::load("native"), DType::bf16);
  if (low == DType::f16) return f16;
  return low == DType::bf16 ? bf16 : make_rule({}, low);  // refuses any other
}

}  // namespace

Autocast::Autocast(std::shared_ptr<const CastRule> rule) : saved_(context().cast_rule) {
  context().cast_rule = std::move(rule);
}
Autocast::Autocast(DType low, bool enabled) : Autocast(enabled ? native_rule(low) : nullptr) {}
Autocast::Autocast(const Policy& policy, DType low, bool enabled)
    : Autocast(enabled ? make_rule(policy, low) : nullptr) {}

}  // namespace mixtape::amp

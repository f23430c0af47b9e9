#pragma once

#include "amp/policy.h"
#include "core/context.h"

namespace mixtape::amp {

/// While it lives, ops of this thread cast their inputs as the policy says. Guards nest, each restores what it found.
///
///   Tensor loss = [&] { amp::Autocast guard(DType::bf16); return model.loss(batch); }();
///
/// A disabled guard is an island without casts: ops run in the dtypes of their inputs.
class Autocast {
 public:
  explicit Autocast(DType low, bool enabled = true);  ///< policy "native"
  Autocast(const Policy& policy, DType low, bool enabled = true);
  /// A rule from make_rule(), for loops that open many guards; null: disabled.
  explicit Autocast(std::shared_ptr<const CastRule> rule);
  ~Autocast() { context().cast_rule = std::move(saved_); }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::shared_ptr<const CastRule> saved_;
};

}  // namespace mixtape::amp

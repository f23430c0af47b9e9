// Lint: what is known to go wrong with a configuration that is valid.
#pragma once

#include <string>
#include <vector>

#include "tools/config/config.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {

struct LintWarning {
  std::string code;        ///< "W-LINT-NO-SCALE"
  std::string key, value;  ///< "amp.loss_scale", "1"
  std::string origin;      ///< of the value: "my.json:8:26", "--set", "default", "amp.policy apex_O3"
  std::string cause, remedy;

  std::string page() const;  ///< where docs/lint.md explains it
  /// "warning CODE  key = value (origin): cause. remedy. See page."
  std::string text() const;
};

/// One for each trap that this run walks into. Reads nothing but what it is given. Throws E-POLICY… (config) as
/// make_precision does.
std::vector<LintWarning> lint(const config::Config& config, const Task& task);

}  // namespace mixtape::trainer

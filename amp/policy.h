// Policy: which op runs in which dtype, as data. A file holds rows op -> rule; a CastRule is a policy made ready.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/op.h"

namespace mixtape::amp {

using PolicyRows = std::map<std::string, Rule, std::less<>>;

struct Policy {
  std::string name;
  int version = 1;  ///< moves when rows change: a checkpoint says which table it was made under
  std::string doc;
  PolicyRows rows;               ///< of ops that are here
  PolicyRows absent;             ///< rows of ops that are not: listed, so that nothing is dropped in silence
  std::optional<Rule> unlisted;  ///< of all other ops; none: each by its own column ("own" in the file)
  bool dynamic_scale = true;     ///< "loss_scale": "dynamic", or a number:
  double static_scale = 1;
  // The file's model_dtype, keep_norms_f32 and parameter_storage have one value each that is built: f32 parameters with
  // a 16-bit copy, norms among them. Others are refused when the file is read.

  /// A built-in policy by name, or a file (a path with '/' or ending in .json). Errors are kind config: E-POLICY-NAME
  /// with the nearest name; E-POLICY-FILE with place; E-POLICY-OP, E-POLICY-RULE, E-POLICY-KEY naming row and file.
  static Policy load(const std::string& name_or_path);
  /// The same from text; `origin` stands in messages.
  static Policy parse(std::string_view text, const std::string& origin);
  static std::vector<std::string> built_in();

  /// Replaces a row ("amp.overrides"). Throws E-POLICY-OP for an unknown op, with the nearest one, and E-POLICY-RULE
  /// for a rule that could not act on this op.
  void replace(const std::string& op, Rule rule);
  void replace(const std::string& op, std::string_view rule);  ///< also E-POLICY-RULE for an unknown rule

  Rule rule_of(const OpSchema& op) const;
};

/// What a guard installs. Throws E-AUTOCAST-DTYPE unless `low` is f16 or bf16.
std::shared_ptr<const CastRule> make_rule(const Policy& policy, DType low);

}  // namespace mixtape::amp

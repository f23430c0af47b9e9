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

/// How a model's parameters are kept between steps.
enum class ParameterStorage : uint8_t {
  f32,                ///< f32 alone: each use in 16 bits is cast anew. The same numbers as the next, in less memory
  f32_with_low_copy,  ///< f32, with a 16-bit copy that the optimizer's pass writes along
  low,                ///< the 16-bit dtype alone, every update rounded to nearest
  bf16_stochastic,    ///< bf16, every update rounded up or down by chance, right on average
  bf16_kahan,         ///< bf16, and beside it in bf16 what rounding took
};
/// "f32", "f32_with_low_copy", "low", "bf16_stochastic", "bf16_kahan".
std::string_view name_of(ParameterStorage storage);
bool parse_storage(std::string_view name, ParameterStorage& out);  ///< false when the name is unknown
constexpr bool is_low(ParameterStorage storage) { return storage >= ParameterStorage::low; }
constexpr bool needs_bf16(ParameterStorage storage) { return storage >= ParameterStorage::bf16_stochastic; }

struct Policy {
  std::string name;
  int version = 1;  ///< moves when rows change: a checkpoint says which table it was made under
  std::string doc;
  PolicyRows rows;               ///< of ops that are here
  PolicyRows absent;             ///< rows of ops that are not: listed, so that nothing is dropped in silence
  std::optional<Rule> unlisted;  ///< of all other ops; none: each by its own column ("own" in the file)
  bool dynamic_scale = true;     ///< "loss_scale": "dynamic", or a number:
  double static_scale = 1;
  bool casts = true;           ///< false: a guard under this policy is a disabled one; there are no rows then
  bool low_model = false;      ///< "model_dtype": "low": biases and tables too are seen with the values of 16 bits
  bool keep_norms_f32 = true;  ///< but γ and β of normalisations are not
  ParameterStorage storage = ParameterStorage::f32_with_low_copy;

  /// A built-in policy by name, or a file (a path with '/' or ending in .json). Errors are kind config: E-POLICY-NAME
  /// with the nearest name; E-POLICY-FILE with place; E-POLICY-OP, E-POLICY-RULE, E-POLICY-KEY naming row and file.
  static Policy load(const std::string& name_or_path);
  /// The same from text; `origin` stands in messages.
  static Policy parse(std::string_view text, const std::string& origin);
  static std::vector<std::string> built_in();

  /// Replaces a row ("amp.overrides"). Throws E-POLICY-OP for an unknown op, with the nearest one, and E-POLICY-RULE
  /// for a rule that could not act on this op, or under a policy without casts.
  void replace(const std::string& op, Rule rule);
  void replace(const std::string& op, std::string_view rule);  ///< also E-POLICY-RULE for an unknown rule

  Rule rule_of(const OpSchema& op) const;
  /// Whether this op sees its parameters (a bias, a table, γ and β) with the values that they have in 16 bits.
  bool lowers_parameters_of(const OpSchema& op) const;
};

/// What a guard installs; null for a policy without casts. Throws E-AUTOCAST-DTYPE unless `low` is f16 or bf16.
std::shared_ptr<const CastRule> make_rule(const Policy& policy, DType low);

}  // namespace mixtape::amp

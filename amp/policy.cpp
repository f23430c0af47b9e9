#include "amp/policy.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/embedded.h"

namespace mixtape {
EmbeddedFiles embedded_policies();
}

namespace mixtape::amp {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const char* code, const std::string& what) { fail(ErrorKind::config, code, what); }

constexpr std::string_view suffix = ".json";
constexpr std::string_view storage_names[] = {"f32", "f32_with_low_copy", "low", "bf16_stochastic", "bf16_kahan"};
bool is_path(std::string_view name) { return name.find('/') != std::string_view::npos || name.ends_with(suffix); }

std::string list(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

Rule rule_named(std::string_view name, const std::string& where) {
  Rule rule;
  if (parse_rule(name, rule)) return rule;
  refuse("E-POLICY-RULE",
         message(where, ": no rule is named '", name, "': use low, full, widest, keep, low_out or banned"));
}

bool has_data(const OpInfo& info) {
  for (int i = 0; i < info.inputs.count; ++i) {
    if (info.inputs[i].role == Role::data) return true;
  }
  return false;
}

// A row that could not act would be dropped in silence: it is an error.
void check_row(const OpSchema& op, Rule rule, const std::string& where) {
  const std::string row = message(where, ": row '", op.info->name, "': ");
  if (!op.info->absorbs.empty() && rule != op.info->precision.rule) {
    refuse("E-POLICY-RULE",
           message(row, "a fused row runs where its parts may, and in their dtypes, and has no rule of ",
                   "its own: name them instead (", op.info->absorbs, ")"));
  }
  if (op.info->name == "cast") refuse("E-POLICY-RULE", row + "the other rules are made of casts, it has none itself");
  if (has_data(*op.info) && rule == Rule::low_out) {
    refuse("E-POLICY-RULE", row + "low_out is for table lookups; this op's data is cast: use low");
  }
  if (!has_data(*op.info) && (rule == Rule::low || rule == Rule::banned)) {
    refuse("E-POLICY-RULE",
           message(row, "a lookup never casts its table: use low_out, or keep to stay in f32, not ", name_of(rule)));
  }
}

bool has_parameters(const OpInfo& info) {
  for (int i = 0; i < info.inputs.count; ++i) {
    if (info.inputs[i].role == Role::parameter) return true;
  }
  return false;
}

bool is_norm(const OpInfo& info) {
  for (int i = 0; i < info.inputs.count; ++i) {
    if (info.inputs[i].name == "gamma") return true;
  }
  return false;
}

const OpSchema& op_named(const std::string& name, const std::string& where) {
  if (const OpSchema* op = find_op(name)) return *op;
  refuse("E-POLICY-OP", message(where, ": no op is named '", name, "'; the nearest is '", nearest_op(name),
                                "' (mixtape ops lists all)"));
}

// nlohmann keeps the last of two equal keys: a row that is written twice would lose one of its rules.
json parse_json(std::string_view text, const std::string& origin) {
  std::vector<std::set<std::string>> open;
  const json::parser_callback_t no_duplicates = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second) {
      refuse("E-POLICY-KEY", message(origin, ": '", parsed.get<std::string>(), "' is written twice"));
    }
    return true;
  };
  try {
    return json::parse(text, no_duplicates, true, true);
  } catch (const json::parse_error& error) {
    refuse("E-POLICY-FILE", message(origin, ": ", error.what()));
  }
}

class Reader {
 public:
  Reader(const json& file, std::string origin) : file_(file), origin_(std::move(origin)) {
    if (!file_.is_object()) refuse("E-POLICY-FILE", origin_ + ": expected an object {…}");
    for (const auto& [key, value] : file_.items()) {
      static const std::set<std::string_view> known = {
          "name",           "version",           "doc",        "casts", "unlisted", "model_dtype",
          "keep_norms_f32", "parameter_storage", "loss_scale", "rows",  "absent"};
      if (!known.contains(key)) refuse("E-POLICY-KEY", message(origin_, ": unknown key '", key, "'"));
    }
  }

  Policy policy() const {
    Policy policy;
    policy.name = text("name");
    policy.doc = file_.contains("doc") ? text("doc") : "";
    if (!at("version").is_number_integer()) wrong("version", "a whole number");
    policy.version = at("version").get<int>();
    const std::string unlisted = text("unlisted");
    if (unlisted != "own") policy.unlisted = rule_named(unlisted, origin_ + ": unlisted");
    read_scale(policy);
    read_parameters(policy);
    read_rows("rows", policy, true);
    if (file_.contains("absent")) read_rows("absent", policy, false);
    policy.casts = flag("casts", true);
    if (!policy.casts && (!policy.rows.empty() || policy.low_model)) {
      wrong("casts", "true where there are rows, or a model of 16 bits: without casts they could not act");
    }
    return policy;
  }

 private:
  const json& at(const char* key) const {
    if (!file_.contains(key)) refuse("E-POLICY-KEY", message(origin_, ": '", key, "' is missing"));
    return file_[key];
  }
  [[noreturn]] void wrong(const std::string& key, const std::string& wanted) const {
    refuse("E-POLICY-KEY", message(origin_, ": '", key, "' must be ", wanted));
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) wrong(key, "a string");
    return at(key).get<std::string>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!file_.contains(key)) return otherwise;
    if (!file_[key].is_boolean()) wrong(key, "true or false");
    return file_[key].get<bool>();
  }
  void read_parameters(Policy& policy) const {
    const std::string dtype = file_.contains("model_dtype") ? text("model_dtype") : "f32";
    if (dtype != "f32" && dtype != "low") wrong("model_dtype", "\"f32\" or \"low\"");
    policy.low_model = dtype == "low";
    policy.keep_norms_f32 = flag("keep_norms_f32", true);
    if (!policy.low_model && !policy.keep_norms_f32) {
      wrong("keep_norms_f32", "true where model_dtype is \"f32\": the norms are f32 then");
    }
    if (!file_.contains("parameter_storage")) return;
    if (!parse_storage(text("parameter_storage"), policy.storage)) {
      wrong("parameter_storage", "one of " + list({std::begin(storage_names), std::end(storage_names)}));
    }
    if (is_low(policy.storage) && !policy.low_model) {
      wrong("parameter_storage",
            "one of f32 where model_dtype is \"f32\": parameters of 16 bits make a model of 16 bits");
    }
  }
  void read_scale(Policy& policy) const {
    const json& value = at("loss_scale");
    policy.dynamic_scale = value == "dynamic";
    if (policy.dynamic_scale) return;
    if (!value.is_number() || value.get<double>() <= 0) wrong("loss_scale", "\"dynamic\" or a number > 0");
    policy.static_scale = value.get<double>();
  }
  void read_rows(const char* key, Policy& policy, bool must_exist) const {
    if (!at(key).is_object()) wrong(key, "an object op -> rule");
    const std::string where = message(origin_, ": ", key);
    for (const auto& [name, value] : file_[key].items()) {
      if (!value.is_string()) wrong(message(key, ".", name), "a rule in quotes");
      const Rule rule = rule_named(value.get<std::string>(), message(where, ".", name));
      const OpSchema* op = must_exist ? &op_named(name, where) : find_op(name);
      if (op) check_row(*op, rule, where);
      (op ? policy.rows : policy.absent)[name] = rule;
    }
  }

  const json& file_;
  std::string origin_;
};

}  // namespace

std::string_view name_of(ParameterStorage storage) { return storage_names[static_cast<size_t>(storage)]; }
bool parse_storage(std::string_view name, ParameterStorage& out) {
  const auto* found = std::find(std::begin(storage_names), std::end(storage_names), name);
  if (found == std::end(storage_names)) return false;
  out = static_cast<ParameterStorage>(found - std::begin(storage_names));
  return true;
}

Policy Policy::parse(std::string_view text, const std::string& origin) {
  const json file = parse_json(text, origin);
  return Reader(file, origin).policy();
}

Policy Policy::load(const std::string& name_or_path) {
  if (is_path(name_or_path)) {
    std::ifstream file(name_or_path, std::ios::binary);
    if (!file) refuse("E-POLICY-FILE", message(name_or_path, ": cannot be read"));
    return parse(std::string(std::istreambuf_iterator<char>(file), {}), name_or_path);
  }
  for (const EmbeddedFile& file : embedded_policies()) {
    if (file.name == name_or_path + std::string(suffix)) return parse(file.bytes, std::string(file.name));
  }
  refuse("E-POLICY-NAME", message("no policy is named '", name_or_path, "': there are ", list(built_in()),
                                  ", and files by their path (….json)"));
}

std::vector<std::string> Policy::built_in() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_policies()) {
    names.emplace_back(file.name.substr(0, file.name.size() - suffix.size()));
  }
  return names;
}

void Policy::replace(const std::string& op, Rule rule) {
  if (!casts) {
    refuse("E-POLICY-RULE",
           message("overrides.", op, " = ", name_of(rule), ": the policy ", name, " casts nothing: take another one"));
  }
  check_row(op_named(op, "overrides"), rule, "overrides");
  rows[op] = rule;
}
void Policy::replace(const std::string& op, std::string_view rule) { replace(op, rule_named(rule, "overrides." + op)); }

Rule Policy::rule_of(const OpSchema& op) const {
  const auto found = rows.find(op.info->name);
  return found != rows.end() ? found->second : unlisted.value_or(op.info->precision.rule);
}

bool Policy::lowers_parameters_of(const OpSchema& op) const {
  if (!low_model || !has_parameters(*op.info)) return false;
  const auto absorbed = absorbed_rows(op);
  if (absorbed.empty()) return !(keep_norms_f32 && is_norm(*op.info));
  return std::any_of(absorbed.begin(), absorbed.end(), [&](const OpSchema* row) { return lowers_parameters_of(*row); });
}

std::shared_ptr<const CastRule> make_rule(const Policy& policy, DType low) {
  if (!is_low(low)) {
    fail(ErrorKind::internal, "E-AUTOCAST-DTYPE",
         message("autocast: the low dtype must be f16 or bf16, got ", name_of(low)));
  }
  if (!policy.casts) return nullptr;
  CastRule rule{.low = low,
                .rules = std::vector<Rule>(registry().size()),
                .low_parameters = std::vector<bool>(registry().size()),
                .policy = policy.name};
  for (const OpSchema* op : registry()) {
    rule.rules[static_cast<size_t>(op->id)] = policy.rule_of(*op);
    rule.low_parameters[static_cast<size_t>(op->id)] = policy.lowers_parameters_of(*op);
  }
  return std::make_shared<const CastRule>(std::move(rule));
}

}  // namespace mixtape::amp

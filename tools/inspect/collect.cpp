#include "tools/inspect/collect.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "amp/scale_state.h"
#include "core/context.h"
#include "core/error.h"
#include "core/parameter.h"
#include "tools/config/suggest.h"
#include "tools/inspect/watch.h"
#include "tools/trainer/setup.h"

namespace mixtape::inspect {
namespace {

/// The section `amp` as a run in `format` would have it; parameters are f32 here, whatever the run keeps them in.
config::Config in_format(config::Config config, DType format) {
  config.amp.dtype = format == DType::f16 ? config::AmpDtype::fp16 : config::AmpDtype::bf16;
  config.amp.parameter_storage = config::ParameterStorage::f32_with_low_copy;
  return config;
}

/// Fused rows that round values inside, where nobody could see them, and those that the policy takes apart.
std::vector<const OpSchema*> rows_to_compose(const CastRule* rule) {
  std::vector<const OpSchema*> rows;
  for (const OpSchema* row : registry()) {
    if (row->info->absorbs.empty()) continue;
    if (row->info->roundings > 0 || (rule != nullptr && !rule->fuses(*row))) rows.push_back(row);
  }
  return rows;
}

/// Histograms by kind and place.
class Groups {
 public:
  Groups(const CollectOptions& options, const LowFormat& format, double scale) : format_(format), scale_(scale) {
    for (const What what : options.what) {
      groups_[what].push_back({.what = what, .place = {}, .values = {}, .at_scale = {}});
    }
  }
  bool wants(What what) const { return groups_.contains(what); }

  void add(What what, const std::string& place, const Tensor& values) {
    std::vector<Group>& all = groups_.at(what);
    auto at = std::find_if(all.begin() + 1, all.end(), [&](const Group& group) { return group.place == place; });
    if (at == all.end()) at = all.insert(at, {.what = what, .place = place, .values = {}, .at_scale = {}});
    Histogram fresh;
    fresh.add(values);
    at->values += fresh;
    all.front().values += fresh;
    const Fate fate = fate_of(values, format_, is_scaled(what) ? scale_ : 1);
    at->at_scale += fate;
    all.front().at_scale += fate;
  }

  /// By kind as asked for, by place as `order` has them.
  std::vector<Group> take(const std::vector<What>& kinds, const std::vector<std::string>& order) {
    const auto rank = [&](const Group& group) {
      return group.place.empty() ? -1 : std::find(order.begin(), order.end(), group.place) - order.begin();
    };
    std::vector<Group> out;
    for (const What what : kinds) {
      std::vector<Group>& all = groups_.at(what);
      std::stable_sort(all.begin(), all.end(), [&](const Group& a, const Group& b) { return rank(a) < rank(b); });
      std::move(all.begin(), all.end(), std::back_inserter(out));
    }
    return out;
  }

 private:
  LowFormat format_;
  double scale_;
  std::map<What, std::vector<Group>> groups_;
};

std::string scope_of_parameter(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

What kind_of(Passing passing) { return passing == Passing::gradient ? What::agrad : What::act; }

void watch_step(const PausedStep& step, const std::shared_ptr<const CastRule>& rule, StepWatch::See see, double* loss) {
  StepWatch watch(std::move(see));
  const ObserverGuard observing(watch.observer());
  *loss = step.run(rule);
}

/// Which tensors of the step are stored in 16 bits, by their keys.
using Stored = std::unordered_map<std::string, bool>;

Stored stored_low(const PausedStep& step, const std::shared_ptr<const CastRule>& rule) {
  Stored low;
  double ignored = 0;
  watch_step(
      step, rule,
      [&](const Sight& sight) {
        low[sight.key] = is_low(sight.tensor.dtype());
        return false;
      },
      &ignored);
  return low;
}

std::pair<double, std::string> scale_of(const PausedStep& step, const CollectOptions& options, DType format) {
  if (options.scale) {
    amp::check({.dynamic = false, .init = *options.scale});
    return {static_cast<float>(*options.scale), "--scale"};  // a sweep starts from an f32
  }
  const config::AmpConfig& section = step.config().amp;
  if (format == DType::bf16) return {1, "bf16 is not scaled"};
  if (section.dtype == config::AmpDtype::fp16) return {step.loss_scale(), "the run's own at this step"};
  const double first = trainer::make_precision(in_format(step.config(), format)).scaler.scale.init;
  return {first, "what a run in fp16 would begin with"};
}

std::vector<std::string> places_of(const models::BertClassifier& model) {
  std::vector<std::string> order;
  for (const NamedTensor& parameter : model.parameters()) {
    std::string place = place_of(scope_of_parameter(parameter.name));
    if (std::find(order.begin(), order.end(), place) == order.end()) order.push_back(std::move(place));
  }
  return order;
}

}  // namespace

std::string_view name_of(What what) {
  switch (what) {
    case What::wgrad: return "wgrad";
    case What::agrad: return "agrad";
    case What::act: return "act";
    case What::weight: return "weight";
  }
  return "";
}

std::vector<What> parse_what(std::string_view names) {
  std::vector<std::string> known;
  for (const What what : all_kinds) known.emplace_back(name_of(what));
  std::vector<What> out;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string name(names.substr(at, end - at));
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      const std::vector<std::string> near = config::nearest(name, known);
      fail(ErrorKind::config, "E-INSPECT-WHAT",
           message("--what: \"", name, "\" is none of ", config::joined(known), ", with commas between",
                   near.size() == 1 ? message(". did you mean \"", near[0], "\"?") : ""));
    }
    const What what = all_kinds[found - known.begin()];
    if (std::find(out.begin(), out.end(), what) != out.end()) {
      fail(ErrorKind::config, "E-INSPECT-WHAT", message("--what: \"", name, "\" comes twice: name it once"));
    }
    out.push_back(what);
    at = end + 1;
  }
  return out;
}

std::string place_of(std::string_view scope) {
  std::string out, two_words;
  int words = 0;
  for (size_t at = 0; at < scope.size();) {
    const size_t end = std::min(scope.find('.', at), scope.size());
    const std::string_view word = scope.substr(at, end - at);
    out += (out.empty() ? "" : ".") + std::string(word);
    if (++words <= 2) two_words = out;
    if (word.find_first_not_of("0123456789") == std::string_view::npos) return out + ".*";
    at = end + 1;
  }
  return two_words.empty() ? "*" : two_words + ".*";
}

Collected collect(const PausedStep& step, const CollectOptions& options) {
  const bool runs_in_bf16 = step.config().amp.dtype == config::AmpDtype::bf16;
  const DType dtype = options.format.value_or(runs_in_bf16 ? DType::bf16 : DType::f16);
  const auto [scale, from] = scale_of(step, options, dtype);
  Collected out;
  out.step = step.step();
  out.format = low_format(dtype);
  out.scale = scale;
  out.scale_from = from;
  out.amp = runs_in_bf16 ? "bf16" : step.config().amp.dtype == config::AmpDtype::fp16 ? "fp16" : "off";

  const auto rule = trainer::make_precision(in_format(step.config(), dtype)).rule;
  const ComposedGuard composed(rows_to_compose(rule.get()));
  const Stored low = stored_low(step, rule);
  Groups groups(options, out.format, scale);
  const auto count_if_stored = [&](const Sight& sight) {
    const auto found = low.find(sight.key);
    if (found == low.end() || !found->second) return false;
    const What what = kind_of(sight.what);
    if (groups.wants(what)) groups.add(what, place_of(sight.scope), sight.tensor);
    return true;
  };
  watch_step(step, nullptr, count_if_stored, &out.loss);
  for (const NamedTensor& p : step.model().parameters()) {
    const std::string place = place_of(scope_of_parameter(p.name));
    if (groups.wants(What::weight)) groups.add(What::weight, place, p.tensor);
    const Gradient& gradient = p.tensor.leaf().gradient;
    if (groups.wants(What::wgrad) && gradient) groups.add(What::wgrad, place, all_rows(gradient, p.tensor.shape()));
  }
  out.groups = groups.take(options.what, places_of(step.model()));
  return out;
}

}  // namespace mixtape::inspect

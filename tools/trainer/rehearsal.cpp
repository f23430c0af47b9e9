#include "tools/trainer/rehearsal.h"

#include <set>

#include "amp/autocast.h"
#include "tools/trainer/setup.h"

namespace mixtape::trainer {
namespace {

[[noreturn]] void refuse(const config::Config& config, const std::string& why) {
  std::string rows;
  for (const auto& [op, rule] : config.amp.overrides) {
    rows += message(rows.empty() ? " with amp.overrides " : ", ", op, " = ", rule);
  }
  fail(ErrorKind::config, "E-POLICY-MODEL",
       message("amp.policy \"", config.amp.policy, "\"", rows, " does not work with this model: ", why,
               ". mixtape ops lists the rule that each op has of its own. nothing was started."));
}

data::Batch two_tokens(const models::BertClassifier& model) {
  data::EncodedTexts texts;
  texts.append(std::vector<int32_t>{0, 0});
  texts.set_labels({0});
  return data::collate(texts, std::vector<int64_t>{0}, {.label_dtype = model.label_dtype()});
}

/// Every op that runs, and what the fused ones stand for.
std::set<std::string, std::less<>> ops_of(const models::BertClassifier& model, const config::Config& config,
                                          const Precision& precision) {
  std::set<std::string, std::less<>> ran;
  Observer observer;
  observer.self = &ran;
  observer.on_call = [](void* self, const CallEvent& event) {
    auto& names = *static_cast<std::set<std::string, std::less<>>*>(self);
    names.emplace(event.op.info->name);
    for (const OpSchema* row : absorbed_rows(event.op)) names.emplace(row->info->name);
  };
  const ObserverGuard observing(observer);
  const NoGradGuard no_grad;
  const RngGuard rng({.stream = rng_stream::dropout});
  const amp::Autocast autocast(precision.rule);
  try {
    const DType dtype = model.loss(two_tokens(model), 1, true).dtype();
    if (is_low(dtype)) refuse(config, message("the loss would be ", name_of(dtype), ", and it is scaled in f32"));
  } catch (const Error& error) {
    if (error.code() != "E-BANNED" && error.code() != "E-DTYPE") throw;
    refuse(config, error.what());
  }
  return ran;
}

}  // namespace

void rehearse(const config::Config& config, const models::BertClassifier& model, Progress& progress) {
  const Precision precision = make_precision(config);
  if (!precision.rule) return;
  const auto ran = ops_of(model, config, precision);
  for (const auto& [op, rule] : config.amp.overrides) {
    if (ran.contains(op)) continue;
    progress.warning(message("warning W-POLICY  amp.overrides.", op, " = ", rule, ": this model never calls ", op,
                             ", so nothing changes; mixtape inspect ledger shows what it calls"));
  }
}

}  // namespace mixtape::trainer

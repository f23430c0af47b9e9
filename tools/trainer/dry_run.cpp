#include "tools/trainer/dry_run.h"

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/trainer/preflight.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {
namespace {

std::string classes_text(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string precision_text(const config::Config& config) {
  if (config.amp.dtype == config::AmpDtype::off) return "off: everything in f32";
  return message(config.amp.dtype == config::AmpDtype::bf16 ? "bf16" : "fp16", " by the policy ", config.amp.policy);
}

}  // namespace

std::string dry_run(config::Config config, const std::string& dir, bool force, Progress& progress) {
  RunDir::check(dir, force);
  kernels::set_thread_count(static_cast<int>(config.threads));
  take_from_pretrained(config);
  const data::Tokenizer tokenizer = make_tokenizer(config.tokenizer);
  Task task = read_task(config, tokenizer, progress);
  const std::string rows = message(task.train.rows(), " training, ", task.val.rows(), " validation and ",
                                   task.test.rows(), " test texts; classes: ", classes_text(task.class_names));
  check_machine(config, dir, bert_config(config, tokenizer.vocab().size()), task.train.lengths());
  const auto model = make_model(config, tokenizer.vocab().size(), task.class_names, progress);
  const Trainer trainer({.config = config, .tokenizer = tokenizer, .model = *model, .progress = progress},
                        std::move(task));
  const std::string from = config.model.pretrained.empty() ? "fresh weights" : "weights of " + config.model.pretrained;
  return message("data       ", rows, "\nmodel      ", model->parameter_count(), " parameters, ", from, "\nprecision  ",
                 precision_text(config), "\nplan       ", trainer.plan().text(), "\nnothing was written.\n");
}

}  // namespace mixtape::trainer

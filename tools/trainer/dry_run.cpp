#include "tools/trainer/dry_run.h"

#include "core/error.h"
#include "tools/config/fields.h"
#include "tools/trainer/inputs.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {
namespace {

std::string precision_text(const config::Config& config) {
  if (config.amp.dtype == config::AmpDtype::off) return "off: everything in f32";
  return message(config.amp.dtype == config::AmpDtype::bf16 ? "bf16" : "fp16", " by the policy ", config.amp.policy);
}

}  // namespace

std::string dry_run(config::Config config, const std::string& dir, bool force, Progress& progress) {
  RunDir::check(dir, force);
  Inputs inputs = read_inputs(config, dir, progress);
  Task& task = inputs.task;
  const std::string rows = message(task.train.rows(), " training, ", task.val.rows(), " validation and ",
                                   task.test.rows(), " test texts; classes: ", config::joined(task.class_names));
  const Trainer trainer({.config = config, .tokenizer = inputs.tokenizer, .model = *inputs.model, .progress = progress},
                        std::move(task));
  const std::string from = config.model.pretrained.empty() ? "fresh weights" : "weights of " + config.model.pretrained;
  return message("data       ", rows, "\nmodel      ", inputs.model->parameter_count(), " parameters, ", from,
                 "\nprecision  ", precision_text(config), "\nplan       ", trainer.plan().text(),
                 "\nnothing was written.\n");
}

}  // namespace mixtape::trainer

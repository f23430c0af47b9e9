#include "tools/trainer/inputs.h"

#include "core/kernels/parallel.h"
#include "tools/trainer/lint.h"
#include "tools/trainer/preflight.h"
#include "tools/trainer/rehearsal.h"
#include "tools/trainer/setup.h"

namespace mixtape::trainer {

Inputs read_inputs(config::Config& config, const std::string& dir, Progress& progress) {
  kernels::set_thread_count(static_cast<int>(config.threads));
  take_from_pretrained(config);
  data::Tokenizer tokenizer = make_tokenizer(config.tokenizer);
  Task task = read_task(config, tokenizer, progress);
  const int64_t vocabulary = tokenizer.vocab().size();
  check_machine(config, dir, bert_config(config, vocabulary), task.train.lengths());
  auto model = make_model(config, vocabulary, task.class_names, progress);
  rehearse(config, *model, progress);
  for (const LintWarning& warning : lint(config, task)) progress.warning(warning.text());
  return {std::move(tokenizer), std::move(task), std::move(model)};
}

}  // namespace mixtape::trainer

#include "tools/inspect/ledger.h"

#include "core/kernels/parallel.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "tools/inspect/op_error.h"
#include "tools/trainer/profiled_step.h"
#include "tools/trainer/rehearsal.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::inspect {

amp::LedgerTotals run_ledger(config::Config config, bool composed, trainer::Progress& progress, amp::Ledger& ledger) {
  kernels::set_thread_count(static_cast<int>(config.threads));
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  data::Dataset train = data::read_dataset(trainer::data_format(config.task), config.task.data_dir, "train", {},
                                           config.trainer.per_device_train_batch_size);
  trainer::check_classes(config, train.class_names);
  const auto model = trainer::make_model(config, tokenizer.vocab().size(), train.class_names, progress);
  const data::EncodedTexts texts = trainer::encode_rows(std::move(train), tokenizer, progress);
  const std::vector<int64_t> rows = data::plan_sorted(texts.lengths(), texts.rows()).front();
  const data::Batch batch =
      data::collate(texts, rows, trainer::collate_options(config, tokenizer, model->label_dtype()));

  ContextGuard modes;
  context().fused = !composed;
  trainer::ProfiledStep step(config, *model);
  amp::Ledger first;
  for (amp::Ledger* seen : {&first, &ledger}) {
    const ObserverGuard observer(seen->observer());
    step.take(
        static_cast<uint64_t>(config.trainer.seed), [&] { return batch; }, nullptr);
  }
  trainer::rehearse(config, *model, progress);  // after the first step: it too makes the weights' 16-bit copies
  return first.totals();
}

std::optional<double> error_against_f64(const CallEvent& event) {
  const std::optional<OpError> found = error_of(event);
  return found ? std::optional(found->error) : std::nullopt;
}

}  // namespace mixtape::inspect

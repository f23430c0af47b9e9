// mixtape inspect ledger CONFIG [--composed]: what one training step ran in which dtype.
#include <memory>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "core/kernels/parallel.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::tools {
namespace {

struct InspectOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
  bool composed = false;
};

/// The first batch of the training file through forward and backward, as the first step would run it.
void ledger(const InspectOptions& options) {
  config::Config config = load_config(options.file, options.sets);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  kernels::set_thread_count(static_cast<int>(config.threads));
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  data::Dataset train = data::read_dataset(trainer::data_format(config.task), config.task.data_dir, "train", {},
                                           config.trainer.per_device_train_batch_size);
  trainer::check_classes(config, train.class_names);
  const auto model = trainer::make_model(config, tokenizer.vocab().size(), train.class_names, progress);
  const data::EncodedTexts texts = trainer::encode_rows(std::move(train), tokenizer, progress);
  const trainer::Precision precision = trainer::make_precision(config);
  const std::vector<int64_t> rows = data::plan_sorted(texts.lengths(), texts.rows()).front();
  const data::Batch batch =
      data::collate(texts, rows, trainer::collate_options(config, tokenizer, model->label_dtype()));

  amp::GradScaler scaler(precision.scaler);
  amp::Ledger ledger;
  ContextGuard modes;
  context().fused = !options.composed;
  const ObserverGuard observer(ledger.observer());
  const RngGuard rng({.seed = static_cast<uint64_t>(config.trainer.seed), .stream = rng_stream::dropout, .step = 1});
  const Tensor loss = [&] {
    const amp::Autocast autocast(precision.rule);
    return model->loss(batch, static_cast<double>(batch.rows), true);
  }();
  autograd::backward(scaler.scale(loss));
  print(options.json ? ledger.json() + "\n" : ledger.text());
}

}  // namespace

void add_inspect(Program& program) {
  Verb verb = program.root.add("inspect", "what happens inside a step, and what is in a checkpoint");
  Verb sub = verb.add("ledger", "which op runs in which dtype, by which rule, with which casts");
  const auto options = std::make_shared<InspectOptions>();
  sub.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(sub, options->sets);
  sub.flag("--json", options->json, "as JSON: {\"ops\", \"totals\"}");
  sub.flag("--composed", options->composed, "every op by itself: what the fused ones stand for");
  sub.action([options] { ledger(*options); });
  add_inspect_weights(verb);
  add_inspect_memory(verb);
  add_inspect_why_overflow(verb);
  add_inspect_compare(verb);
  add_inspect_speed(verb);
  add_inspect_histogram(verb);
  add_inspect_scale(verb);
}

}  // namespace mixtape::tools

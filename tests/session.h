// All parts of a training run on the tiny data, for tests that look into it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/kernels/parallel.h"
#include "tests/tiny_run.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {

/// `T` is a Trainer that remembers what its hooks saw. One thread.
template <class T>
struct TinySession {
  Progress progress{Verbosity::quiet};
  config::Config config;
  data::Tokenizer tokenizer;
  Task task;
  std::vector<std::string> class_names;
  std::unique_ptr<models::BertClassifier> model;
  T trainer;
  RunDir dir;

  TinySession(const tests::TinyRun& tiny, const std::vector<std::string>& sets)
      : config(tiny.config(sets)),
        tokenizer(make_tokenizer(config.tokenizer)),
        task(read_task(config, tokenizer, progress)),
        class_names(task.class_names),
        model(make_model(config, tokenizer.vocab().size(), class_names, progress)),
        trainer({.config = config, .tokenizer = tokenizer, .model = *model, .progress = progress}, std::move(task)),
        dir(RunDir::create(tiny.path("run"), true)) {
    kernels::set_thread_count(1);
  }
  TrainResult run() { return trainer.run(dir); }
};

}  // namespace mixtape::trainer

// Inputs: what a run is made of, read and checked before its directory is touched.
#pragma once

#include <memory>
#include <string>

#include "models/classifier.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {

struct Inputs {
  data::Tokenizer tokenizer;
  Task task;
  std::unique_ptr<models::BertClassifier> model;
};

/// Reads vocabulary, texts and weights for a run in `dir`, puts into `config` what the pretrained model says, and sees
/// that memory and disk suffice. Sets the thread count of the configuration. Throws what the readers, check_machine and
/// make_model throw.
Inputs read_inputs(config::Config& config, const std::string& dir, Progress& progress);

}  // namespace mixtape::trainer

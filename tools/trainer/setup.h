// From a configuration to the objects of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"
#include "amp/policy.h"
#include "core/op.h"
#include "models/classifier.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

/// How a training batch is laid.
data::Padding padding_of(const config::DataConfig& config);
data::CollateOptions collate_options(const config::Config& config, const data::Tokenizer& tokenizer, DType labels);

/// Puts into `config` what nobody wrote and `model.pretrained` says: `model.config`, pooling and head of a model that
/// Mixtape saved, `tokenizer.lowercase`. Errors are kind model.
void take_from_pretrained(config::Config& config);

/// Fresh weights, or those of `model.pretrained` with a line about what was drawn all the same, stored as the section
/// `amp` says. Throws E-MODEL-CONFIG (config) for sizes that do not fit the vocabulary, the texts or the classes.
std::unique_ptr<models::BertClassifier> make_model(const config::Config& config, int64_t vocab_size,
                                                   const std::vector<std::string>& class_names, Progress& progress);

/// Where `device` wants a run to compute. `auto` says why when a module for devices is there and cannot be used. Throws
/// E-CONFIG-DEVICE (config) with what was found where `cuda` is asked for and not there.
Device device_of(const config::Config& config, Progress& progress);

/// The encoder's sizes: config.json of the pretrained directory, or BERT-base; either way what somebody wrote wins.
models::BertConfig bert_config(const config::Config& config, int64_t vocab_size);

std::unique_ptr<optim::Optimizer> make_optimizer(const config::OptimizerConfig& config, const NamedTensors& parameters);
/// The same, rounding parameters as the section `amp` says.
std::unique_ptr<optim::Optimizer> make_optimizer(const config::Config& config, const NamedTensors& parameters);

/// The section `amp`, made ready.
struct Precision {
  std::shared_ptr<const CastRule> rule;  ///< of `amp.policy` with `amp.overrides`; null: nothing is cast
  amp::ScalerOptions scaler;             ///< fp16: as the section and the policy say; else 1, with the same checks
};
/// Throws E-POLICY… (config).
Precision make_precision(const config::Config& config);
/// How the section `amp` keeps weights: of `amp.parameter_storage`, or the policy.
amp::ParameterStorage storage_of(const config::Config& config);
/// Whether γ and β stay f32 where that form is one of 16 bits.
bool keeps_norms_f32(const config::Config& config);
/// Brings a model's parameters into that form: make_model does.
void store_parameters(const config::Config& config, const models::BertClassifier& model);

/// How long a run is, before it starts.
struct RunPlan {
  int64_t batches_per_epoch = 0, steps_per_epoch = 0;
  int64_t epochs = 0, steps = 0;
  optim::SchedulePlan schedule;
  /// "12 batches an epoch, 3 epochs: warm-up 4 of 36 steps, then linear to 0".
  std::string text() const;
};
/// Throws E-SCHEDULE (config) for a warm-up that is longer than the run.
RunPlan make_plan(const config::Config& config, int64_t rows);

}  // namespace mixtape::trainer

#include "tools/trainer/setup.h"

#include <filesystem>
#include <optional>

#include "amp/parameters.h"
#include "core/device_module.h"
#include "core/device_report.h"
#include "core/error.h"
#include "models/pretrained.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tools/config/fields.h"

namespace mixtape::trainer {
namespace {

/// Calls f("hidden_size", ours.hidden_size, theirs.hidden_size) for every key of `model.config`.
template <class Own, class Bert, class F>
void for_each_size(Own& own, Bert& bert, const F& f) {
  f("vocab_size", own.vocab_size, bert.vocab_size);
  f("hidden_size", own.hidden_size, bert.hidden_size);
  f("num_hidden_layers", own.num_hidden_layers, bert.num_hidden_layers);
  f("num_attention_heads", own.num_attention_heads, bert.num_attention_heads);
  f("intermediate_size", own.intermediate_size, bert.intermediate_size);
  f("hidden_dropout_prob", own.hidden_dropout_prob, bert.hidden_dropout_prob);
  f("attention_probs_dropout_prob", own.attention_probs_dropout_prob, bert.attention_probs_dropout_prob);
  f("max_position_embeddings", own.max_position_embeddings, bert.max_position_embeddings);
  f("type_vocab_size", own.type_vocab_size, bert.type_vocab_size);
  f("layer_norm_eps", own.layer_norm_eps, bert.layer_norm_eps);
  f("initializer_range", own.initializer_range, bert.initializer_range);
}

[[noreturn]] void refuse(const std::string& what) { fail(ErrorKind::config, "E-MODEL-CONFIG", what); }

void check_fit(const config::Config& config, const models::BertConfig& bert, int64_t vocab_size) {
  const std::string whose = config.model.pretrained.empty() ? "model.config" : config.model.pretrained;
  if (vocab_size > bert.vocab_size) {
    const std::string key = "model.config.vocab_size";
    const bool written = config.written(key);
    refuse(
        message("the vocabulary ", config.tokenizer.vocab, " has ", vocab_size, " pieces, but ",
                written ? message(key, " (", config.origin(key).text(), ")") : whose, " has only ", bert.vocab_size,
                " word embeddings: ", written ? "leave the key out" : "use the vocabulary that belongs to the model"));
  }
  if (config.tokenizer.max_length > bert.max_position_embeddings) {
    refuse(message("tokenizer.max_length = ", config.tokenizer.max_length, " (",
                   config.origin("tokenizer.max_length").text(), "), but ", whose, " has only ",
                   bert.max_position_embeddings, " positions: set tokenizer.max_length to at most that"));
  }
}

/// Returns whether the head was loaded, too.
bool load_weights(const models::BertClassifier& model, const std::string& dir,
                  const std::vector<std::string>& class_names, Progress& progress) {
  std::optional<Activity> activity;
  const models::LoadReport report = models::load_pretrained(model, dir, [&](int64_t done, int64_t total) {
    if (!activity) activity.emplace(progress, "loading " + dir, total);
    activity->done(done);
  });
  activity.reset();
  progress.note(message("weights from ", report.file, ": ", report.loaded, " encoder tensors",
                        report.head_loaded ? " and the head" : ""));
  if (!report.passed_over.empty()) progress.note("not read: " + config::joined(report.passed_over));
  if (!report.head_loaded) progress.note(report.head_note);
  if (!report.has_pooler) progress.detail("the file has no pooler; this model needs none");
  if (!report.unused.empty()) {
    progress.note(message(static_cast<int64_t>(report.unused.size()),
                          " tensors of the file are not used: ", config::joined(report.unused)));
  }
  const std::vector<std::string> theirs = models::read_pretrained(dir).class_names;
  if (report.head_loaded && !theirs.empty() && theirs != class_names) {
    progress.warning(message("warning W-MODEL-LABELS  the head of ", dir, " was trained for the classes ",
                             config::joined(theirs), "; here they are ", config::joined(class_names),
                             ", in this order"));
  }
  return report.head_loaded;
}

}  // namespace

data::Padding padding_of(const config::DataConfig& config) {
  switch (config.padding) {
    case config::Padding::longest: return data::Padding::longest;
    case config::Padding::max_length: return data::Padding::max_length;
    default: return data::Padding::packed;
  }
}

data::CollateOptions collate_options(const config::Config& config, const data::Tokenizer& tokenizer, DType labels) {
  return {.padding = padding_of(config.data),
          .max_length = config.tokenizer.max_length,
          .pad_id = tokenizer.vocab().special().pad,
          .label_dtype = labels};
}

models::BertConfig bert_config(const config::Config& config, int64_t vocab_size) {
  models::BertConfig bert;
  for_each_size(config.model.config, bert, [](const char*, const auto& own, auto& size) { size = own; });
  if (bert.vocab_size == 0) bert.vocab_size = vocab_size;
  return bert;
}

void take_from_pretrained(config::Config& config) {
  if (config.model.pretrained.empty()) return;
  const models::PretrainedInfo info = models::read_pretrained(config.model.pretrained);
  const auto open = [&](const std::string& path) {
    if (config.written(path)) return false;
    config.origins[path].kind = config::Origin::Kind::pretrained;
    return true;
  };
  for_each_size(config.model.config, info.bert, [&](const char* key, auto& own, const auto& size) {
    if (open(std::string("model.config.") + key)) own = size;
  });
  if (info.pooling && open("model.pooling")) {
    config.model.pooling = *info.pooling == models::Pooling::cls ? config::Pooling::cls : config::Pooling::pooler;
  }
  if (info.head && open("model.head")) {
    config.model.head = *info.head == models::Head::sigmoid ? config::Head::sigmoid : config::Head::softmax;
  }
  if (info.lowercase && open("tokenizer.lowercase")) config.tokenizer.lowercase = *info.lowercase;
}

std::unique_ptr<models::BertClassifier> make_model(const config::Config& config, int64_t vocab_size,
                                                   const std::vector<std::string>& class_names, Progress& progress) {
  const models::BertConfig bert = bert_config(config, vocab_size);
  check_fit(config, bert, vocab_size);
  models::ClassifierConfig classifier;
  classifier.bert = bert;
  classifier.pooling = config.model.pooling == config::Pooling::cls ? models::Pooling::cls : models::Pooling::pooler;
  classifier.head = config.model.head == config::Head::sigmoid ? models::Head::sigmoid : models::Head::softmax;
  classifier.num_labels = static_cast<int64_t>(class_names.size());
  classifier.head_dropout = config.model.head_dropout;
  classifier.activation_checkpointing = config.trainer.activation_checkpointing;
  const uint64_t seed = static_cast<uint64_t>(config.trainer.seed);
  std::unique_ptr<models::BertClassifier> model;
  if (config.model.pretrained.empty()) {
    model = std::make_unique<models::BertClassifier>(classifier, seed);
  } else {
    model = std::make_unique<models::BertClassifier>(classifier);  // drawing all would take longer than loading
    if (!load_weights(*model, config.model.pretrained, class_names, progress)) model->draw_head(seed);
  }
  store_parameters(config, *model);
  return model;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const config::OptimizerConfig& config,
                                                 const NamedTensors& parameters) {
  if (config.type == config::OptimizerType::sgd) {
    return std::make_unique<optim::SGD>(
        parameters, optim::SGDOptions{.lr = config.learning_rate, .weight_decay = config.weight_decay});
  }
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = config.learning_rate,
                                                                        .beta1 = config.adam_beta1,
                                                                        .beta2 = config.adam_beta2,
                                                                        .eps = config.adam_epsilon,
                                                                        .weight_decay = config.weight_decay});
}

namespace {

DType low_dtype(const config::AmpConfig& section) {
  return section.dtype == config::AmpDtype::fp16 ? DType::f16 : DType::bf16;
}

[[noreturn]] void refuse_storage(const config::AmpConfig& section, amp::ParameterStorage storage, const char* why) {
  fail(ErrorKind::config, "E-POLICY-STORAGE",
       message("amp.policy \"", section.policy, "\" with parameters stored as ", amp::name_of(storage), ": ", why,
               ". set amp.parameter_storage to f32_with_low_copy, or choose another policy"));
}

/// `amp.policy` with what the section replaces in it.
amp::Policy policy_of(const config::AmpConfig& section) {
  amp::Policy policy = amp::Policy::load(section.policy);
  for (const auto& [op, rule] : section.overrides) policy.replace(op, rule);
  if (section.parameter_storage != config::ParameterStorage::by_policy) {
    policy.storage = static_cast<amp::ParameterStorage>(static_cast<int>(section.parameter_storage) - 1);
    policy.low_model = policy.low_model || is_low(policy.storage);
  }
  if (is_low(policy.storage) && !policy.casts) {
    refuse_storage(section, policy.storage, "it casts nothing, and weights of 16 bits would meet data of f32");
  }
  if (needs_bf16(policy.storage) && section.dtype == config::AmpDtype::fp16) {
    refuse_storage(section, policy.storage, "amp.dtype is \"fp16\", and this form is there for bf16 alone");
  }
  return policy;
}

}  // namespace

Device device_of(const config::Config& config, Progress& progress) {
  if (config.device == config::DeviceChoice::cpu) return {};
  const bool must = config.device == config::DeviceChoice::cuda;
  if (device_count() > 0) {
    const Device device{DeviceKind::cuda, 0};
    if (!must) progress.note(message("device: auto takes ", mixtape::name_of(device)));
    return device;
  }
  const std::string why = why_no_device(device_report());
  if (must) {
    fail(ErrorKind::config, "E-CONFIG-DEVICE",
         message("device = \"cuda\" (", config.origin("device").text(), "), but ", why,
                 ": take device = \"auto\" or \"cpu\", or see what mixtape doctor finds. nothing was started."));
  }
  progress.detail("device: auto takes the CPU: " + why);
  return {};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const config::Config& config, const NamedTensors& parameters) {
  std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(config.optimizer, parameters);
  if (config.amp.dtype != config::AmpDtype::off) {
    optimizer->set_rounding(amp::rounding_of(policy_of(config.amp).storage),
                            static_cast<uint64_t>(config.trainer.seed));
  }
  return optimizer;
}

amp::ParameterStorage storage_of(const config::Config& config) { return policy_of(config.amp).storage; }
bool keeps_norms_f32(const config::Config& config) { return policy_of(config.amp).keep_norms_f32; }

void store_parameters(const config::Config& config, const models::BertClassifier& model) {
  if (config.amp.dtype == config::AmpDtype::off) return;
  amp::store_parameters(model.parameters(), policy_of(config.amp), low_dtype(config.amp));
}

Precision make_precision(const config::Config& config) {
  const config::AmpConfig& section = config.amp;
  Precision out{.rule = nullptr, .scaler = amp::unscaled()};
  out.scaler.max_consecutive_skips = section.max_consecutive_skips;
  if (section.dtype == config::AmpDtype::off) return out;
  const amp::Policy policy = policy_of(section);
  out.rule = amp::make_rule(policy, low_dtype(section));
  if (section.dtype != config::AmpDtype::fp16) return out;
  const bool by_policy = !policy.dynamic_scale && !config.written("amp.loss_scale");
  const double fixed = by_policy ? policy.static_scale : section.loss_scale;  // 0: dynamic
  out.scaler.scale = {.dynamic = fixed == 0,
                      .init = fixed == 0 ? section.init_scale : fixed,
                      .growth = section.growth_factor,
                      .backoff = section.backoff_factor,
                      .interval = section.growth_interval,
                      .min = section.min_scale,
                      .max = section.max_scale,
                      .hysteresis = section.hysteresis};
  return out;
}

std::string RunPlan::text() const {
  return message(batches_per_epoch, batches_per_epoch == 1 ? " batch" : " batches", " an epoch, ", epochs,
                 epochs == 1 ? " epoch" : " epochs", ": ", optim::describe(schedule));
}

RunPlan make_plan(const config::Config& config, int64_t rows) {
  const config::TrainerConfig& trainer = config.trainer;
  const auto quotient = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  RunPlan plan;
  plan.batches_per_epoch = quotient(rows, trainer.per_device_train_batch_size);
  plan.steps_per_epoch = quotient(plan.batches_per_epoch, trainer.gradient_accumulation_steps);
  plan.steps = trainer.max_steps > 0 ? trainer.max_steps : trainer.num_train_epochs * plan.steps_per_epoch;
  plan.epochs = quotient(plan.steps, plan.steps_per_epoch);
  if (config.warmup_by_steps() && trainer.warmup_steps > plan.steps) {
    fail(ErrorKind::config, "E-SCHEDULE",
         message("trainer.warmup_steps = ", trainer.warmup_steps, " (", config.origin("trainer.warmup_steps").text(),
                 ") is longer than the whole run of ", plan.steps, " steps (", rows,
                 " texts): shorten the warm-up, or write trainer.warmup_ratio in its place"));
  }
  constexpr optim::ScheduleKind kinds[] = {optim::ScheduleKind::linear, optim::ScheduleKind::cosine,
                                           optim::ScheduleKind::constant};
  plan.schedule = {.kind = kinds[static_cast<int>(trainer.lr_scheduler_type)],
                   .base_lr = config.optimizer.learning_rate,
                   .total = plan.steps,
                   .warmup = config.warmup_by_steps() ? trainer.warmup_steps
                                                      : optim::warmup_updates(trainer.warmup_ratio, plan.steps)};
  return plan;
}

}  // namespace mixtape::trainer

#include "tools/config/fields.h"

#include <type_traits>
#include <utility>

namespace mixtape::config {
namespace {

/// The accessor of a member: slot<&Config::trainer, &TrainerConfig::seed>().
template <auto... Members>
Slot slot() {
  using Target = std::remove_reference_t<decltype((std::declval<Config&>().*....*Members))>;
  if constexpr (std::is_enum_v<Target>) {
    return ChoiceSlot{[](const Config& config) { return static_cast<int>((config.*....*Members)); },
                      [](Config& config, int index) { (config.*....*Members) = static_cast<Target>(index); }};
  } else {
    return static_cast<Target& (*)(Config&)>([](Config& config) -> Target& { return (config.*....*Members); });
  }
}
template <auto Member>
Slot encoder() {
  return slot<&Config::model, &ModelConfig::config, Member>();
}
template <auto Member>
Slot trainer() {
  return slot<&Config::trainer, Member>();
}
template <auto Member>
Slot amp() {
  return slot<&Config::amp, Member>();
}

Range at_least(double low, std::string_view why = {}) { return {.low = low, .why = why}; }
Range above(double low, std::string_view why = {}) { return {.low = low, .above_low = true, .why = why}; }
Range between(double low, double high, std::string_view why = {}) { return {.low = low, .high = high, .why = why}; }
Range probability() { return {.low = 0, .high = 1, .below_high = true, .why = "1 would drop everything"}; }
Range decay_rate() { return {.low = 0, .high = 1, .below_high = true, .why = "1 would never forget"}; }
/// 2^-126 to 2^126: there a scale and its inverse are normal 32-bit floats.
Range scale_range() { return between(0x1p-126, 0x1p126, "a scale and its inverse must be normal 32-bit floats"); }

constexpr double kMostSteps = 1e12;
constexpr double kLargestExactInteger = 9007199254740991;  // 2^53 - 1: the last that every JSON reader keeps

struct Block {
  std::string_view section;
  std::vector<Field> rows;
};

// Laid out by hand: a field is a paragraph. Its default is the member's initialiser in config.h.
// clang-format off

const std::vector<Block> table = {
  {"task", {
    {.name = "type", .type = Type::choice, .slot = slot<&Config::task, &TaskConfig::type>(),
     .choices = {{.value = "text_classification"}}, .doc = "What is learned: one label for each text."},
    {.name = "format", .type = Type::choice, .slot = slot<&Config::task, &TaskConfig::format>(),
     .choices = {{.value = "tweet_eval", .synonyms = {"tweeteval"}},
                 {.value = "tsv"}, {.value = "csv"}, {.value = "jsonl", .synonyms = {"json", "ndjson"}}},
     .synonyms = {"dataset_format", "file_format"},
     .doc = "How the data files look: tweet_eval has SPLIT_text.txt and SPLIT_labels.txt, one line a text; the others "
            "have one file SPLIT.tsv, .csv or .jsonl with \"text\" and \"label\" (docs/own-data.md)."},
    {.name = "data_dir", .type = Type::path, .slot = slot<&Config::task, &TaskConfig::data_dir>(), .required = true,
     .synonyms = {"data", "data_path", "dataset", "dataset_dir", "train_data", "dataset_name"},
     .doc = "The directory with the files of train, val and test."}
  }},
  {"tokenizer", {
    {.name = "vocab", .type = Type::path, .slot = slot<&Config::tokenizer, &TokenizerConfig::vocab>(),
     .nullable = true, .required = true, .synonyms = {"vocab_file", "vocab_path", "vocabulary", "tokenizer_name"},
     .doc = "The WordPiece vocabulary, one piece a line; may be left out when model.pretrained holds a vocab.txt."},
    {.name = "lowercase", .type = Type::boolean, .slot = slot<&Config::tokenizer, &TokenizerConfig::lowercase>(),
     .synonyms = {"do_lower_case", "uncased"},
     .doc = "Lower-case the texts and strip accents, as the uncased vocabularies expect."},
    {.name = "max_length", .type = Type::integer, .slot = slot<&Config::tokenizer, &TokenizerConfig::max_length>(),
     .range = between(2, 65536, "[CLS] and [SEP] take two"),
     .synonyms = {"max_seq_length", "max_len", "max_seq_len", "sequence_length", "model_max_length"},
     .doc = "Tokens of a text, [CLS] and [SEP] included; longer texts are cut."},
    {.name = "match_special_tokens", .type = Type::boolean,
     .slot = slot<&Config::tokenizer, &TokenizerConfig::match_special_tokens>(), .synonyms = {"split_special_tokens"},
     .doc = "Read \"[SEP]\" in a text as the special token; off, so that a text cannot inject one."}
  }},
  {"model", {
    {.name = "type", .type = Type::choice, .slot = slot<&Config::model, &ModelConfig::type>(),
     .choices = {{.value = "bert"}}, .synonyms = {"model_type", "architecture"}, .doc = "The architecture."},
    {.name = "pretrained", .type = Type::path, .slot = slot<&Config::model, &ModelConfig::pretrained>(),
     .nullable = true,
     .synonyms = {"model_name_or_path", "model_name", "pretrained_model_name_or_path", "weights", "checkpoint",
                  "pretrained_model", "model_path", "init_checkpoint"},
     .doc = "A directory with config.json, vocab.txt and weights (safetensors or pytorch_model.bin); null draws every weight."},
    {.name = "pooling", .type = Type::choice, .slot = slot<&Config::model, &ModelConfig::pooling>(),
     .choices = {{.value = "cls", .synonyms = {"first", "cls_token"}}, {.value = "pooler", .synonyms = {"tanh"}}},
     .synonyms = {"pooling_strategy", "pool"},
     .doc = "What the head sees: the last hidden state at [CLS], or BERT's tanh pooler on top of it."},
    {.name = "head", .type = Type::choice, .slot = slot<&Config::model, &ModelConfig::head>(),
     .choices = {{.value = "sigmoid", .synonyms = {"binary", "bce"}},
                 {.value = "softmax", .synonyms = {"cross_entropy", "multiclass"}}},
     .synonyms = {"classifier", "loss_type", "problem_type"},
     .doc = "sigmoid: one logit and binary cross-entropy, for two classes; softmax: a logit for each class."},
    {.name = "head_dropout", .type = Type::number, .slot = slot<&Config::model, &ModelConfig::head_dropout>(),
     .range = probability(), .synonyms = {"classifier_dropout", "dropout"}, .doc = "Dropout before the head."}
  }},
  {"model.config", {
    {.name = "hidden_size", .type = Type::integer, .slot = encoder<&EncoderConfig::hidden_size>(),
     .range = between(1, 65536), .synonyms = {"hidden", "d_model", "hidden_dim", "n_embd"}, .doc = "Width of the residual stream."},
    {.name = "num_hidden_layers", .type = Type::integer, .slot = encoder<&EncoderConfig::num_hidden_layers>(),
     .range = between(1, 1024), .synonyms = {"layers", "num_layers", "n_layers", "n_layer", "depth"},
     .doc = "Encoder layers."},
    {.name = "num_attention_heads", .type = Type::integer, .slot = encoder<&EncoderConfig::num_attention_heads>(),
     .range = between(1, 1024), .synonyms = {"heads", "num_heads", "n_heads", "n_head"},
     .doc = "Attention heads; they divide hidden_size."},
    {.name = "intermediate_size", .type = Type::integer, .slot = encoder<&EncoderConfig::intermediate_size>(),
     .range = between(1, 1048576), .synonyms = {"intermediate", "ffn_dim", "d_ff", "feed_forward_size"},
     .doc = "Width inside the feed-forward part."},
    {.name = "hidden_dropout_prob", .type = Type::number, .slot = encoder<&EncoderConfig::hidden_dropout_prob>(),
     .range = probability(), .synonyms = {"dropout", "hidden_dropout", "dropout_prob"},
     .doc = "Dropout after the embeddings and after both parts of each layer."},
    {.name = "attention_probs_dropout_prob", .type = Type::number,
     .slot = encoder<&EncoderConfig::attention_probs_dropout_prob>(), .range = probability(),
     .synonyms = {"attention_dropout", "attention_dropout_prob", "attn_dropout"},
     .doc = "Dropout of the attention probabilities."},
    {.name = "max_position_embeddings", .type = Type::integer,
     .slot = encoder<&EncoderConfig::max_position_embeddings>(), .range = between(1, 65536),
     .synonyms = {"n_positions", "max_positions"},
     .doc = "Positions that have an embedding: the longest possible text."},
    {.name = "type_vocab_size", .type = Type::integer, .slot = encoder<&EncoderConfig::type_vocab_size>(),
     .range = between(1, 1024), .synonyms = {"token_type_vocab_size"},
     .doc = "Token types (first and second sentence)."},
    {.name = "vocab_size", .type = Type::integer, .slot = encoder<&EncoderConfig::vocab_size>(),
     .range = between(1, 1048576), .nullable = true,
     .doc = "Rows of the word embedding; null: the length of the vocabulary."},
    {.name = "layer_norm_eps", .type = Type::number, .slot = encoder<&EncoderConfig::layer_norm_eps>(),
     .range = above(0, "it keeps a constant row from dividing by 0"),
     .synonyms = {"layernorm_eps", "layer_norm_epsilon", "norm_eps"},
     .doc = "Added to the variance in every LayerNorm."},
    {.name = "initializer_range", .type = Type::number, .slot = encoder<&EncoderConfig::initializer_range>(),
     .range = above(0), .synonyms = {"init_std", "initializer_std"},
     .doc = "Standard deviation of weights that are drawn."}
  }},
  {"data", {
    {.name = "padding", .type = Type::choice, .slot = slot<&Config::data, &DataConfig::padding>(),
     .choices = {{.value = "longest", .synonyms = {"true", "dynamic"}},
                 {.value = "max_length", .synonyms = {"max", "maximum", "fixed"}},
                 {.value = "packed", .synonyms = {"none", "packing"}}},
     .synonyms = {"pad", "pad_to_max_length"},
     .doc = "Pad a batch to its longest text, or every batch to tokenizer.max_length, or lay texts end to end without "
            "padding."},
    {.name = "length_bucketing", .type = Type::boolean, .slot = slot<&Config::data, &DataConfig::length_bucketing>(),
     .synonyms = {"group_by_length", "bucketing", "bucket"},
     .doc = "Put texts of similar length into a batch: sorted within chunks of 50 batches."},
    {.name = "shuffle", .type = Type::boolean, .slot = slot<&Config::data, &DataConfig::shuffle>(),
     .synonyms = {"shuffle_train"},
     .doc = "Another order in each epoch; with length_bucketing off too, the order of the file."}
  }},
  {"optimizer", {
    {.name = "type", .type = Type::choice, .slot = slot<&Config::optimizer, &OptimizerConfig::type>(),
     .choices = {{.value = "adamw", .synonyms = {"adam", "adamw_torch", "adamw_hf", "adamw_torch_fused"}},
                 {.value = "sgd"}},
     .synonyms = {"optim", "optimizer_name"}, .doc = "The update rule; neither decays biases and LayerNorm weights."},
    {.name = "learning_rate", .type = Type::number,
     .slot = slot<&Config::optimizer, &OptimizerConfig::learning_rate>(),
     .range = at_least(0, "a negative one would climb"),
     .synonyms = {"lr", "base_lr", "max_lr", "peak_lr", "step_size"},
     .doc = "The highest learning rate, right after the warm-up."},
    {.name = "weight_decay", .type = Type::number, .slot = slot<&Config::optimizer, &OptimizerConfig::weight_decay>(),
     .range = at_least(0, "a negative one would let weights grow"),
     .synonyms = {"wd", "decay", "l2", "weight_decay_rate"},
     .doc = "Decoupled weight decay, times the learning rate."},
    {.name = "adam_beta1", .type = Type::number, .slot = slot<&Config::optimizer, &OptimizerConfig::adam_beta1>(),
     .range = decay_rate(), .acts_in = "optimizer.type=adamw", .synonyms = {"beta1", "beta_1", "betas"},
     .doc = "Decay rate of the mean of the gradients."},
    {.name = "adam_beta2", .type = Type::number, .slot = slot<&Config::optimizer, &OptimizerConfig::adam_beta2>(),
     .range = decay_rate(), .acts_in = "optimizer.type=adamw", .synonyms = {"beta2", "beta_2", "betas"},
     .doc = "Decay rate of the mean of their squares."},
    {.name = "adam_epsilon", .type = Type::number, .slot = slot<&Config::optimizer, &OptimizerConfig::adam_epsilon>(),
     .range = above(0, "with 0 an unused weight divides 0 by 0"), .acts_in = "optimizer.type=adamw",
     .synonyms = {"eps", "epsilon", "adam_eps"},
     .doc = "Added to the root of the second moment."}
  }},
  {"trainer", {
    {.name = "num_train_epochs", .type = Type::integer, .slot = trainer<&TrainerConfig::num_train_epochs>(),
     .range = between(1, 1e6), .acts_in = "trainer.max_steps=0",
     .synonyms = {"epochs", "num_epochs", "n_epochs", "max_epochs", "train_epochs"},
     .doc = "Passes over the training rows."},
    {.name = "per_device_train_batch_size", .type = Type::integer,
     .slot = trainer<&TrainerConfig::per_device_train_batch_size>(), .range = between(1, 65536),
     .synonyms = {"batch_size", "train_batch_size", "batch", "bs", "per_gpu_train_batch_size", "micro_batch_size"},
     .doc = "Texts in a (micro-)batch."},
    {.name = "gradient_accumulation_steps", .type = Type::integer,
     .slot = trainer<&TrainerConfig::gradient_accumulation_steps>(), .range = between(1, 65536),
     .synonyms = {"accumulation", "accumulation_steps", "accumulate_grad_batches", "grad_accum",
                  "gradient_accumulation"},
     .doc = "Micro-batches in one update; a window never crosses an epoch, the last may be short."},
    {.name = "max_grad_norm", .type = Type::number, .slot = trainer<&TrainerConfig::max_grad_norm>(),
     .range = at_least(0, "0 turns clipping off; a negative value would reverse every gradient"),
     .synonyms = {"grad_clip", "clip_grad_norm", "gradient_clip_val", "max_norm", "grad_norming", "clip",
                  "gradient_clipping"},
     .doc = "Clip the global norm of the unscaled gradients to this; 0: never."},
    {.name = "seed", .type = Type::integer, .slot = trainer<&TrainerConfig::seed>(),
     .range = between(0, kLargestExactInteger), .synonyms = {"random_seed", "manual_seed", "rng_seed", "data_seed"},
     .doc = "Decides drawn weights, order of the rows and dropout masks."},
    {.name = "lr_scheduler_type", .type = Type::choice, .slot = trainer<&TrainerConfig::lr_scheduler_type>(),
     .choices = {{.value = "linear"}, {.value = "cosine"},
                 {.value = "constant", .synonyms = {"constant_with_warmup", "none"}}},
     .synonyms = {"scheduler", "lr_scheduler", "schedule", "lr_schedule"},
     .doc = "After the warm-up: linearly to 0, by a half cosine to 0, or no change."},
    {.name = "warmup_steps", .type = Type::integer, .slot = trainer<&TrainerConfig::warmup_steps>(),
     .range = between(0, kMostSteps), .synonyms = {"warmup", "num_warmup_steps", "warmup_updates"},
     .doc = "Updates over which the learning rate rises to its value; written, it replaces warmup_ratio."},
    {.name = "warmup_ratio", .type = Type::number, .slot = trainer<&TrainerConfig::warmup_ratio>(),
     .range = between(0, 1), .synonyms = {"warmup", "warmup_step", "warmup_proportion", "warmup_fraction"},
     .doc = "The same as a part of the planned updates, rounded up."},
    {.name = "eval_strategy", .type = Type::choice, .slot = trainer<&TrainerConfig::eval_strategy>(),
     .choices = {{.value = "no", .synonyms = {"none", "never"}}, {.value = "steps", .synonyms = {"step"}},
                 {.value = "epoch", .synonyms = {"epochs"}}},
     .acts_in = "trainer.eval_steps=1 trainer.metric=loss optimizer.learning_rate=0.3",
     .synonyms = {"evaluation_strategy", "eval", "evaluate_during_training"},
     .doc = "Evaluate on val once at the end, every eval_steps, or after each epoch."},
    {.name = "eval_steps", .type = Type::integer, .slot = trainer<&TrainerConfig::eval_steps>(),
     .range = between(0, kMostSteps),
     .acts_in = "trainer.eval_strategy=steps trainer.eval_steps=1 trainer.metric=loss optimizer.learning_rate=0.3",
     .synonyms = {"eval_every", "eval_interval", "validation_steps"},
     .doc = "Steps between evaluations, for eval_strategy \"steps\"."},
    {.name = "save_steps", .type = Type::integer, .slot = trainer<&TrainerConfig::save_steps>(),
     .range = between(0, kMostSteps), .trajectory = false,
     .synonyms = {"save_every", "checkpoint_steps", "save_interval", "save_strategy"},
     .doc = "Steps between checkpoints; 0: at each evaluation. A new best model and the end are saved always."},
    {.name = "metric", .type = Type::choice, .slot = trainer<&TrainerConfig::metric>(),
     .choices = {{.value = "macro_f1", .synonyms = {"f1", "macro-f1", "f1_macro", "eval_f1", "eval_macro_f1"}},
                 {.value = "accuracy", .synonyms = {"acc", "eval_accuracy"}},
                 {.value = "loss", .synonyms = {"eval_loss", "val_loss"}}},
     .acts_in = "trainer.eval_strategy=steps trainer.eval_steps=1 optimizer.learning_rate=1",
     .synonyms = {"metric_for_best_model", "validation_metric", "monitor"},
     .doc = "What decides on val which model is the best and when to stop early."},
    {.name = "early_stopping_patience", .type = Type::integer,
     .slot = trainer<&TrainerConfig::early_stopping_patience>(), .range = between(0, 1e6),
     .acts_in = "trainer.eval_strategy=steps trainer.eval_steps=1 trainer.metric=loss optimizer.learning_rate=1",
     .synonyms = {"patience", "early_stopping"},
     .doc = "Stop after this many evaluations without a better metric; 0: never."},
    {.name = "logging_steps", .type = Type::integer, .slot = trainer<&TrainerConfig::logging_steps>(),
     .range = between(1, kMostSteps), .trajectory = false,
     .synonyms = {"log_every", "log_interval", "log_steps", "log_every_n_steps"},
     .doc = "Steps between step events in log.jsonl and progress lines."},
    {.name = "save_total_limit", .type = Type::integer, .slot = trainer<&TrainerConfig::save_total_limit>(),
     .range = between(1, 1e6), .trajectory = false, .synonyms = {"keep_checkpoints", "max_checkpoints"},
     .doc = "The newest so many checkpoints are kept, and beside them that of the best model."},
    {.name = "max_steps", .type = Type::integer, .slot = trainer<&TrainerConfig::max_steps>(),
     .range = between(0, kMostSteps),
     .synonyms = {"steps", "num_steps", "total_steps", "max_train_steps", "num_train_steps"},
     .doc = "Attempted steps; sets the planned number of updates. 0: num_train_epochs decides."},
    {.name = "max_train_rows", .type = Type::integer, .slot = trainer<&TrainerConfig::max_train_rows>(),
     .range = between(0, kMostSteps), .synonyms = {"max_train_samples", "train_rows", "limit", "max_train_examples"},
     .doc = "Only the first rows of the training file, before shuffling; 0: all."},
    {.name = "activation_checkpointing", .type = Type::boolean,
     .slot = trainer<&TrainerConfig::activation_checkpointing>(), .trajectory = false,
     .synonyms = {"gradient_checkpointing", "recompute"},
     .doc = "Keep only the inputs of the layers and compute the rest again: less memory, the same bits."},
    {.name = "deterministic", .type = Type::boolean, .slot = trainer<&TrainerConfig::deterministic>(),
     .trajectory = false, .synonyms = {"full_determinism", "use_deterministic_algorithms"},
     .doc = "Forbid operations whose result depends on timing; no effect on the CPU, where there are none."}
  }},
  {"amp", {
    {.name = "dtype", .type = Type::choice, .slot = amp<&AmpConfig::dtype>(),
     .choices = {{.value = "off", .synonyms = {"fp32", "f32", "float32", "no", "none", "false"}},
                 {.value = "bf16", .synonyms = {"bfloat16", "true"}},
                 {.value = "fp16", .synonyms = {"f16", "float16", "half"}}},
     .synonyms = {"fp16", "bf16", "fp32", "precision", "mixed_precision", "amp_dtype", "half_precision", "autocast",
                  "use_amp"},
     .doc = "The 16-bit type of products and activations; off: everything in f32."},
    {.name = "policy", .type = Type::policy, .slot = amp<&AmpConfig::policy>(),
     .choices = {{.value = "native"}, {.value = "torch_cpu"},
                 {.value = "torch_cuda", .synonyms = {"torch", "pytorch"}}, {.value = "apex_O0", .synonyms = {"O0"}},
                 {.value = "apex_O1", .synonyms = {"O1"}}, {.value = "apex_O2", .synonyms = {"O2"}},
                 {.value = "apex_O3", .synonyms = {"O3"}}}, .acts_in = "amp.dtype=bf16",
     .synonyms = {"amp_policy", "precision_policy"},
     .doc = "Which op runs in which type: a built-in policy, or a .json file of one's own."},
    {.name = "overrides", .type = Type::rules, .slot = amp<&AmpConfig::overrides>(),
     .choices = {{.value = "low"}, {.value = "full"}, {.value = "widest"}, {.value = "keep"}, {.value = "low_out"},
                 {.value = "banned"}}, .acts_in = "amp.dtype=bf16",
     .synonyms = {"rules", "op_overrides"}, .doc = "Rows of the policy that are replaced: op name -> rule."},
    {.name = "opt_level", .type = Type::choice, .slot = amp<&AmpConfig::opt_level>(),
     .choices = {{.value = "O0"}, {.value = "O1"}, {.value = "O2"}, {.value = "O3"}},
     .nullable = true, .acts_in = "amp.dtype=bf16", .synonyms = {"fp16_opt_level", "amp_level"},
     .doc = "A synonym for amp.policy \"apex_O0\" to \"apex_O3\", the opt levels of Apex."},
    {.name = "parameter_storage", .type = Type::choice, .slot = amp<&AmpConfig::parameter_storage>(),
     .choices = {{.value = "policy"}, {.value = "f32", .synonyms = {"fp32", "float32"}},
                 {.value = "f32_with_low_copy", .synonyms = {"shadow", "master", "master_weights"}},
                 {.value = "low", .synonyms = {"bf16", "fp16", "half"}},
                 {.value = "bf16_stochastic", .synonyms = {"stochastic", "stochastic_rounding"}},
                 {.value = "bf16_kahan", .synonyms = {"kahan", "compensated"}}}, .acts_in = "amp.dtype=bf16",
     .synonyms = {"master_weights", "stochastic_rounding", "kahan", "kahan_sum", "param_dtype"},
     .doc = "How weights are kept: in f32, with or without a 16-bit copy; in 16 bits, rounded to nearest (low); in "
            "bf16, rounded by chance, or with what rounding took. The log then has the share of lost updates."},
    {.name = "loss_scale", .type = Type::scale, .slot = amp<&AmpConfig::loss_scale>(), .range = scale_range(),
     .acts_in = "amp.dtype=fp16",
     .synonyms = {"scale", "static_loss_scale", "loss_scaling"}, .doc = "fp16: \"dynamic\", or a fixed scale."},
    {.name = "init_scale", .type = Type::number, .slot = amp<&AmpConfig::init_scale>(), .range = scale_range(),
     .acts_in = "amp.dtype=fp16",
     .synonyms = {"initial_scale", "init_loss_scale", "initial_loss_scale"}, .doc = "The dynamic scale at the start."},
    {.name = "growth_factor", .type = Type::number, .slot = amp<&AmpConfig::growth_factor>(),
     .range = above(1, "at 1 the scale would never recover from an overflow"),
     .acts_in = "amp.dtype=fp16 amp.growth_interval=1", .synonyms = {"scale_factor", "growth"},
     .doc = "The dynamic scale is multiplied by this after growth_interval clean updates."},
    {.name = "backoff_factor", .type = Type::number, .slot = amp<&AmpConfig::backoff_factor>(),
     .range = {.low = 0, .high = 1, .above_low = true, .below_high = true,
               .why = "the scale must shrink at an overflow"}, .acts_in = "amp.dtype=fp16 amp.init_scale=1048576",
     .synonyms = {"backoff"}, .doc = "The dynamic scale is multiplied by this at an overflow."},
    {.name = "growth_interval", .type = Type::integer, .slot = amp<&AmpConfig::growth_interval>(),
     .range = between(1, kMostSteps), .acts_in = "amp.dtype=fp16 amp.growth_factor=3",
     .synonyms = {"scale_window", "loss_scale_window"},
     .doc = "Clean updates before the scale grows."},
    {.name = "min_scale", .type = Type::number, .slot = amp<&AmpConfig::min_scale>(), .range = scale_range(),
     .acts_in = "amp.dtype=fp16 amp.init_scale=1048576",
     .synonyms = {"min_loss_scale"}, .doc = "The dynamic scale never falls below this."},
    {.name = "max_scale", .type = Type::number, .slot = amp<&AmpConfig::max_scale>(), .range = scale_range(),
     .acts_in = "amp.dtype=fp16 amp.growth_interval=1 amp.growth_factor=3",
     .synonyms = {"max_loss_scale"}, .doc = "The dynamic scale never rises above this."},
    {.name = "hysteresis", .type = Type::integer, .slot = amp<&AmpConfig::hysteresis>(), .range = between(1, 1e6),
     .acts_in = "amp.dtype=fp16 amp.init_scale=1048576",
     .synonyms = {"delayed_shift"}, .doc = "Overflows that are needed before the scale shrinks."},
    {.name = "retry_overflow", .type = Type::boolean, .slot = amp<&AmpConfig::retry_overflow>(),
     .acts_in = "amp.dtype=fp16 amp.init_scale=1048576", .synonyms = {"retry", "repeat_batch", "retry_on_overflow"},
     .doc = "After an overflow that lowers the scale, run the step's batches again, with the same dropout masks."},
    {.name = "max_consecutive_skips", .type = Type::integer, .slot = amp<&AmpConfig::max_consecutive_skips>(),
     .range = between(1, 1e9), .trajectory = false, .acts_in = "amp.dtype=fp16 amp.init_scale=1048576",
     .synonyms = {"max_skips"},
     .doc = "So many skipped steps in a row end the run with exit code 20, in every dtype. All attempts of "
            "retry_overflow at a step count as that one step."},
    {.name = "overflow_messages", .type = Type::choice, .slot = amp<&AmpConfig::overflow_messages>(),
     .choices = {{.value = "all", .synonyms = {"verbose"}}, {.value = "first"},
                 {.value = "none", .synonyms = {"quiet", "silent"}}},
     .trajectory = false, .synonyms = {"verbosity", "amp_verbosity"},
     .doc = "Which overflows print a line; those before the first applied step share one. log.jsonl has them all."}
  }},
  {"", {
    {.name = "device", .type = Type::choice, .slot = slot<&Config::device>(),
     .choices = {{.value = "auto"}, {.value = "cpu"}, {.value = "cuda", .synonyms = {"gpu", "cuda:0"}}},
     .synonyms = {"gpu", "use_cuda", "no_cuda", "accelerator"},
     .doc = "Where to compute; auto takes a GPU where there is one that this build can use, else the CPU."},
    {.name = "threads", .type = Type::integer, .slot = slot<&Config::threads>(), .range = between(0, 1024),
     .synonyms = {"num_threads", "n_threads", "omp_num_threads", "cores", "workers"},
     .doc = "Threads; 0: OMP_NUM_THREADS, else one for each core that affinity and cgroups leave. Another number may "
            "change the last bits of a matrix product: a run goes on only with the number that it began with."}
  }}
};

// clang-format on

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> rows = [] {
    std::vector<Field> all;
    for (const Block& block : table) {
      for (const Field& row : block.rows) {
        all.push_back(row);
        all.back().section = block.section;
      }
    }
    return all;
  }();
  return rows;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"task", {"dataset", "data_config"}, "What is learned, and from which files."},
      {"tokenizer", {"tokenization"}, "From text to token ids."},
      {"model", {"network"}, "The network and where its weights come from."},
      {"model.config",
       {"model_config", "encoder", "bert_config"},
       "The encoder's sizes; with model.pretrained they override its config.json."},
      {"data", {"dataloader", "data_loader", "loader"}, "How rows become batches."},
      {"optimizer", {"optimiser", "optim"}, "The update of the weights."},
      {"trainer", {"training", "training_args", "training_arguments", "train"}, "The loop around it."},
      {"amp",
       {"mixed_precision", "precision_config"},
       "Mixed precision: the 16-bit type, the policy and the loss scale."}};
  return all;
}

const std::vector<Elsewhere>& elsewhere() {
  static const std::vector<Elsewhere> all = {
      {{"output_dir", "output", "out_dir", "serialization_dir", "save_dir", "run_dir", "logging_dir"},
       "the run directory is given on the command line: mixtape train CONFIG -s DIR"},
      {{"resume_from_checkpoint", "resume", "recover"},
       "a run is continued on the command line: mixtape train CONFIG -s DIR --recover"},
      {{"report_to"}, "event files for TensorBoard are made from the run: mixtape report DIR --tensorboard LOGDIR"},
      {{"overwrite_output_dir", "force"}, "given on the command line: mixtape train CONFIG -s DIR --force"},
      {{"hidden_act", "hidden_activation", "activation"},
       "the activation is GELU by the error function, as BERT's; there is nothing to set"},
      {{"position_embedding_type"}, "positions are absolute and learned, as BERT's; there is nothing to set"},
      {{"num_labels", "num_classes", "id2label", "label2id"}, "the labels come from the data; there is nothing to set"},
      {{"pad_token_id", "bos_token_id", "eos_token_id"},
       "special tokens are looked up in the vocabulary by name; there is nothing to set"},
      {{"per_device_eval_batch_size", "eval_batch_size"},
       "evaluation always takes batches of 64; there is nothing to set"},
      {{"load_best_model_at_end"}, "DIR/best always holds the best model; there is nothing to set"}};
  return all;
}

}  // namespace mixtape::config

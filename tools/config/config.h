// The configuration of a run: typed values, where each came from, and the loader that checks them all before anything
// starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::config {

enum class TaskType { text_classification };
enum class TaskFormat { tweet_eval, tsv, csv, jsonl };
enum class ModelType { bert };
enum class Pooling { cls, pooler };
enum class Head { sigmoid, softmax };
enum class Padding { longest, max_length, packed };
enum class OptimizerType { adamw, sgd };
enum class SchedulerType { linear, cosine, constant };
enum class EvalStrategy { no, steps, epoch };
enum class Metric { macro_f1, accuracy, loss };
enum class AmpDtype { off, bf16, fp16 };
enum class OptLevel { O0, O1, O2, O3, none };
enum class ParameterStorage { by_policy, f32, f32_with_low_copy, low, bf16_stochastic, bf16_kahan };
enum class OverflowMessages { all, first, none };
enum class DeviceChoice { automatic, cpu, cuda };

struct TaskConfig {
  TaskType type = TaskType::text_classification;
  TaskFormat format = TaskFormat::tweet_eval;
  std::string data_dir;  ///< absolute; required
};

struct TokenizerConfig {
  std::string vocab;  ///< absolute; `model.pretrained`/vocab.txt when none is written
  bool lowercase = true;
  int64_t max_length = 128;
  bool match_special_tokens = false;
};

/// `model.config`: names and defaults of Hugging Face's BERT-base. With `pretrained` only the entries that were written
/// count (`Config::written`): they override its config.json.
struct EncoderConfig {
  int64_t vocab_size = 0;  ///< 0 (null in JSON): the vocabulary's length
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};

struct ModelConfig {
  ModelType type = ModelType::bert;
  std::string pretrained;  ///< absolute; "" (null in JSON): random weights
  EncoderConfig config;
  Pooling pooling = Pooling::cls;
  Head head = Head::sigmoid;
  double head_dropout = 0.1;
};

struct DataConfig {
  Padding padding = Padding::longest;
  bool length_bucketing = true;
  bool shuffle = true;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::adamw;
  double learning_rate = 2e-5;
  double weight_decay = 0.01;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
};

struct TrainerConfig {
  int64_t num_train_epochs = 3;
  int64_t per_device_train_batch_size = 16;
  int64_t gradient_accumulation_steps = 1;
  double max_grad_norm = 1.0;
  int64_t seed = 42;
  SchedulerType lr_scheduler_type = SchedulerType::linear;
  int64_t warmup_steps = 0;   ///< counts only when written: `Config::warmup_by_steps`
  double warmup_ratio = 0.1;  ///< counts otherwise
  EvalStrategy eval_strategy = EvalStrategy::epoch;
  int64_t eval_steps = 0;
  int64_t save_steps = 0;
  Metric metric = Metric::macro_f1;
  int64_t early_stopping_patience = 0;
  int64_t logging_steps = 10;
  int64_t save_total_limit = 2;
  int64_t max_steps = 0;
  int64_t max_train_rows = 0;
  bool activation_checkpointing = false;
  bool deterministic = true;
};

struct AmpConfig {
  AmpDtype dtype = AmpDtype::bf16;
  std::string policy = "native";        ///< the name of a built-in policy, or the absolute path of a policy file
  OptLevel opt_level = OptLevel::none;  ///< as written; `policy` is what counts
  std::map<std::string, std::string> overrides;  ///< op name -> rule
  ParameterStorage parameter_storage = ParameterStorage::by_policy;
  double loss_scale = 0;  ///< a static scale; 0 ("dynamic" in JSON): the state machine's
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 1;
  double max_scale = 16777216;
  int64_t hysteresis = 1;
  bool retry_overflow = false;
  int64_t max_consecutive_skips = 50;
  OverflowMessages overflow_messages = OverflowMessages::first;
};

/// Where a value came from.
struct Origin {
  enum class Kind { by_default, file, command_line, pretrained };
  Kind kind = Kind::by_default;
  std::string file;  ///< as the user typed it; only for Kind::file
  int line = 0;      ///< from 1
  int column = 0;    ///< from 1, in characters
  /// "default", "my.json:14:5", "--set" or "model.pretrained".
  std::string text() const;
};

/// The effective configuration. The member initialisers are the defaults: `Config{}` is what an empty file would give.
struct Config {
  TaskConfig task;
  TokenizerConfig tokenizer;
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  TrainerConfig trainer;
  AmpConfig amp;
  DeviceChoice device = DeviceChoice::automatic;
  int64_t threads = 0;  ///< 0: all cores

  std::map<std::string, Origin, std::less<>> origins;  ///< dotted path -> place, for every value that is not a default
  std::vector<std::string> warnings;                   ///< complete texts for stderr, in the form of the errors

  /// The origin of a field ("trainer.seed"); Kind::by_default for everything that nobody wrote.
  Origin origin(std::string_view path) const;
  /// True when the field stands in the file or in a --set.
  bool written(std::string_view path) const;
  /// True when the warm-up is `trainer.warmup_steps`; else it is `trainer.warmup_ratio` of the planned updates.
  bool warmup_by_steps() const { return written("trainer.warmup_steps"); }
};

/// Reads and checks a file; `sets` are the arguments of --set ("trainer.seed=7"), which win over the file. Relative
/// paths are relative to the directory of the file. Throws one Error(ErrorKind::config, "E-CONFIG") whose message is
/// the complete report: every error at once, each with its own code, place, dotted path and remedy, and the closing
/// line. A file that is not there is E-CONFIG-FILE, one that cannot be read E-IO-READ (io).
Config load_config(const std::string& path, const std::vector<std::string>& sets);

/// The same for a text that is in memory. `name` stands in the messages, `directory` is what relative paths start from.
Config parse_config(std::string_view text, const std::string& name, const std::string& directory,
                    const std::vector<std::string>& sets);

/// The effective configuration as strict JSON, indented, ending in a newline: absolute paths, numbers in the shortest
/// form that reads back as the same double, the one warm-up key that counts, amp.loss_scale unless a policy decides it,
/// and of `model.config` only what was written when `pretrained` decides the rest. Loading it gives the same values
/// again.
std::string to_json(const Config& config);

}  // namespace mixtape::config

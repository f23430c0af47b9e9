// Required fields, contradictions between fields, and warnings about keys that cannot act.
#include <algorithm>
#include <filesystem>

#include "amp/policy.h"
#include "core/error.h"
#include "tools/config/check.h"

namespace mixtape::config {
namespace {

using Paths = std::vector<std::string_view>;

const Field& field_at(std::string_view path) { return *find_field(section_of(path), name_of(path)); }

class Rules {
 public:
  Rules(Checking& checking, const Value& root) : checking_(checking), config_(checking.config), root_(root) {}

  void run() {
    take_vocabulary_of_pretrained();
    for (const Field& field : fields()) {
      if (field.required) require(field);
    }
    warm_up();
    opt_level();
    evaluation();
    scales();
    sizes();
    warn_about_amp();
    warn_about_the_rest();
  }

 private:
  bool written(std::string_view path) const { return config_.written(path); }

  /// Reports a contradiction at the last of the fields that somebody wrote.
  void contradiction(const Paths& paths, const std::string& text) {
    const bool spoilt = std::any_of(paths.begin(), paths.end(),
                                    [&](std::string_view path) { return checking_.spoilt.count(path) > 0; });
    if (spoilt) return;
    Position at;
    std::vector<std::string> places;
    std::string subject;
    for (const std::string_view path : paths) {
      const Origin origin = config_.origin(path);
      if (origin.kind == Origin::Kind::command_line) at = {.line = 0, .column = 0};
      const bool later = origin.line > at.line || (origin.line == at.line && origin.column > at.column);
      if (origin.kind == Origin::Kind::file && at.line != 0 && later) at = {origin.line, origin.column};
      subject += (subject.empty() ? "" : ", ") + std::string(path);
      places.push_back(checking_.located(path));
    }
    std::string all;
    for (size_t i = 0; i < places.size(); ++i)
      all += (i == 0 ? "" : i + 1 == places.size() ? " and " : ", ") + places[i];
    checking_.value_problems.push_back({"E-CONFIG-CONFLICT", at, subject, all + ": " + text});
  }

  void take_vocabulary_of_pretrained() {
    const std::string& pretrained = config_.model.pretrained;
    if (!config_.tokenizer.vocab.empty() || pretrained.empty() || checking_.spoilt.count("tokenizer.vocab") > 0) return;
    const std::filesystem::path vocab = std::filesystem::path(pretrained) / "vocab.txt";
    std::error_code ignored;
    // A directory that is not there at all is for the reader of models to report, who knows more about it.
    if (std::filesystem::exists(pretrained, ignored) && !std::filesystem::exists(vocab, ignored)) return;
    config_.tokenizer.vocab = vocab.string();
    config_.origins["tokenizer.vocab"].kind = Origin::Kind::pretrained;
  }

  void require(const Field& field) {
    const std::string path = field.path();
    const bool is_vocab = path == "tokenizer.vocab";
    if (config_.origins.count(path) > 0 || checking_.spoilt.count(path) > 0) return;
    if (is_vocab && checking_.spoilt.count("model.pretrained") > 0) return;
    Position at = root_.at;
    for (const Member& member : root_.members) {
      if (member.key == field.section) at = member.value.at;
    }
    std::string text = message("required. ", field.doc);
    if (is_vocab && !config_.model.pretrained.empty()) {
      text = message("required, as there is no vocab.txt in ", checking_.located("model.pretrained"));
    }
    checking_.value_problems.push_back({"E-CONFIG-MISSING", at, path, std::move(text)});
  }

  void warm_up() {
    if (written("trainer.warmup_steps") && written("trainer.warmup_ratio")) {
      contradiction({"trainer.warmup_steps", "trainer.warmup_ratio"}, "they exclude each other, keep one");
    }
    const TrainerConfig& trainer = config_.trainer;
    if (config_.warmup_by_steps() && trainer.max_steps > 0 && trainer.warmup_steps > trainer.max_steps) {
      contradiction({"trainer.warmup_steps", "trainer.max_steps"}, "the warm-up is longer than the run");
    }
  }

  void opt_level() {
    AmpConfig& amp = config_.amp;
    if (amp.opt_level == OptLevel::none || checking_.spoilt.count("amp.opt_level") > 0) return;
    const std::string policy = message("apex_O", static_cast<int>(amp.opt_level));
    if (written("amp.policy") && amp.policy != policy) {
      return contradiction({"amp.opt_level", "amp.policy"}, "both say which policy, keep one");
    }
    amp.policy = policy;
    config_.origins["amp.policy"] = config_.origin("amp.opt_level");
  }

  void evaluation() {
    const TrainerConfig& trainer = config_.trainer;
    if (trainer.eval_strategy == EvalStrategy::steps && trainer.eval_steps == 0) {
      contradiction({"trainer.eval_strategy", "trainer.eval_steps"}, "say after how many steps to evaluate");
    }
    if (trainer.early_stopping_patience > 0 && trainer.eval_strategy == EvalStrategy::no) {
      contradiction({"trainer.early_stopping_patience", "trainer.eval_strategy"},
                    "stopping early needs evaluations before the end");
    }
  }

  void scales() {
    const AmpConfig& amp = config_.amp;
    if (amp.min_scale > amp.max_scale) {
      contradiction({"amp.min_scale", "amp.max_scale"}, "the lower bound is above the upper one");
    } else if (amp.init_scale < amp.min_scale) {
      contradiction({"amp.init_scale", "amp.min_scale"}, "the scale would start below its lower bound");
    } else if (amp.init_scale > amp.max_scale) {
      contradiction({"amp.init_scale", "amp.max_scale"}, "the scale would start above its upper bound");
    }
  }

  /// Sizes that a pretrained directory decides are checked when it is read.
  void sizes() {
    const EncoderConfig& encoder = config_.model.config;
    const bool own = config_.model.pretrained.empty();
    const std::string_view hidden = "model.config.hidden_size", heads = "model.config.num_attention_heads";
    if ((own || (written(hidden) && written(heads))) && encoder.hidden_size % encoder.num_attention_heads != 0) {
      contradiction({hidden, heads}, "the width must be a multiple of the number of heads");
    }
    const std::string_view positions = "model.config.max_position_embeddings";
    if ((own || written(positions)) && config_.tokenizer.max_length > encoder.max_position_embeddings) {
      contradiction({"tokenizer.max_length", positions}, "texts may be longer than there are positions");
    }
  }

  void warn(std::string_view path, std::string text) {
    const Field& field = field_at(path);
    if (!written(path) || field.json(config_) == field.json(Config{})) return;
    const Origin origin = config_.origin(path);
    const Position at{.line = origin.kind == Origin::Kind::command_line ? 0 : origin.line, .column = origin.column};
    const Problem problem{"W-CONFIG-NO-EFFECT", at, message(path, " = ", field.json(config_)),
                          "has no effect " + std::move(text)};
    config_.warnings.push_back(problem_lines("warning", checking_.name, {problem}));
  }

  void warn_about_amp() {
    const Paths dynamic = {"amp.init_scale", "amp.growth_factor", "amp.backoff_factor", "amp.growth_interval",
                           "amp.min_scale",  "amp.max_scale",     "amp.hysteresis",     "amp.retry_overflow"};
    if (config_.amp.dtype != AmpDtype::fp16) {
      const bool off = config_.amp.dtype == AmpDtype::off;
      const std::string why = off ? "with amp.dtype \"off\"" : "with amp.dtype \"bf16\": its loss scale is always 1";
      warn("amp.loss_scale", why);
      for (const std::string_view path : dynamic) warn(path, why);
      if (!off) return;
      warn("amp.policy", why);
      warn("amp.overrides", why);
      warn("amp.parameter_storage", why);
    } else if (config_.amp.loss_scale != 0) {
      for (const std::string_view path : dynamic)
        warn(path, "with " + checking_.located("amp.loss_scale") + ": a fixed scale never changes");
    } else if (!written("amp.loss_scale") && has_fixed_scale(config_.amp.policy)) {
      for (const std::string_view path : dynamic)
        warn(path, "with " + checking_.located("amp.policy") + ": its loss scale is fixed");
    }
  }

  /// Of a policy that is built in; a file is read when the run is made ready, not here.
  static bool has_fixed_scale(const std::string& policy) {
    return !policy.ends_with(".json") && !amp::Policy::load(policy).dynamic_scale;
  }

  void warn_about_the_rest() {
    if (config_.trainer.eval_strategy != EvalStrategy::steps) {
      warn("trainer.eval_steps", "with " + checking_.located("trainer.eval_strategy"));
    }
    if (config_.optimizer.type == OptimizerType::sgd) {
      for (const std::string_view path : {"optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_epsilon"}) {
        warn(path, "with optimizer.type \"sgd\"");
      }
    }
  }

  Checking& checking_;
  Config& config_;
  const Value& root_;
};

}  // namespace

void check_rules(Checking& checking, const Value& root) { Rules(checking, root).run(); }

Origin Checking::origin_of(Position at) const {
  if (at.line == 0) return {.kind = Origin::Kind::command_line, .file = {}};
  return {Origin::Kind::file, name, at.line, at.column};
}

std::string Checking::located(std::string_view path) const {
  return message(path, " = ", field_at(path).json(config), " (", config.origin(path).text(), ")");
}

}  // namespace mixtape::config

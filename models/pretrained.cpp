#include "models/pretrained.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/factory.h"
#include "core/parameter.h"
#include "data/file.h"
#include "data/safetensors.h"

namespace mixtape::models {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t max_config_bytes = 1 << 20;

[[noreturn]] void fail_file(const std::string& path, const std::string& what) {
  fail(ErrorKind::model, "E-MODEL-CONFIG-FILE", path + ": " + what);
}

Json read_json(const std::string& path, const std::string& missing_code) {
  const std::string text = data::read_file(path, ErrorKind::model, missing_code, max_config_bytes);
  Json json = Json::parse(text, nullptr, false, true);
  if (!json.is_object()) fail_file(path, "is not a JSON object");
  return json;
}

void read_number(const Json& json, const std::string& path, const char* key, int64_t& out) {
  if (!json.contains(key)) return;
  if (!json[key].is_number_integer()) fail_file(path, message("\"", key, "\" must be an integer"));
  out = json[key].get<int64_t>();
}
void read_number(const Json& json, const std::string& path, const char* key, double& out) {
  if (!json.contains(key)) return;
  if (!json[key].is_number()) fail_file(path, message("\"", key, "\" must be a number"));
  out = json[key].get<double>();
}

// Keys that would change the function and that this encoder does not have.
void require_value(const Json& json, const std::string& path, const char* key, const Json& only) {
  if (!json.contains(key) || json[key] == only) return;
  fail_file(path, message("\"", key, "\": ", json[key].dump(), " is not supported, only ", only.dump()));
}

BertConfig bert_config(const Json& json, const std::string& path) {
  require_value(json, path, "model_type", "bert");
  require_value(json, path, "is_decoder", false);  // causal attention
  require_value(json, path, "add_cross_attention", false);
  require_value(json, path, "hidden_act", "gelu");
  require_value(json, path, "position_embedding_type", "absolute");
  BertConfig c;
  read_number(json, path, "vocab_size", c.vocab_size);
  read_number(json, path, "hidden_size", c.hidden_size);
  read_number(json, path, "num_hidden_layers", c.num_hidden_layers);
  read_number(json, path, "num_attention_heads", c.num_attention_heads);
  read_number(json, path, "intermediate_size", c.intermediate_size);
  read_number(json, path, "max_position_embeddings", c.max_position_embeddings);
  read_number(json, path, "type_vocab_size", c.type_vocab_size);
  read_number(json, path, "layer_norm_eps", c.layer_norm_eps);
  read_number(json, path, "hidden_dropout_prob", c.hidden_dropout_prob);
  read_number(json, path, "attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  read_number(json, path, "initializer_range", c.initializer_range);
  if (const std::string fault = fault_of(c); !fault.empty()) fail_file(path, fault);
  return c;
}

// Keys are numbers as strings, in any order: "10" comes after "9".
std::vector<std::string> class_names(const Json& json, const std::string& path) {
  if (!json.contains("id2label")) return {};
  const Json& labels = json["id2label"];
  std::vector<std::string> names;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string key = std::to_string(i);
    if (!labels.is_object() || !labels.contains(key) || !labels[key].is_string()) {
      fail_file(path,
                message("\"id2label\" must map \"0\" to \"", static_cast<int64_t>(labels.size()) - 1, "\" to names"));
    }
    names.push_back(labels[key].get<std::string>());
  }
  return names;
}

void read_mixtape_entry(const Json& json, const std::string& path, PretrainedInfo& info) {
  if (!json.contains("mixtape")) return;
  const Json& own = json["mixtape"];
  const auto word = [&](const char* key) {
    return own.is_object() && own.contains(key) && own[key].is_string() ? own[key].get<std::string>() : "";
  };
  const std::string pooling = word("pooling"), head = word("head");
  if ((pooling != "cls" && pooling != "pooler") || (head != "sigmoid" && head != "softmax")) {
    fail_file(path, "\"mixtape\" must hold \"pooling\": cls or pooler, and \"head\": sigmoid or softmax");
  }
  info.pooling = pooling == "cls" ? Pooling::cls : Pooling::pooler;
  info.head = head == "sigmoid" ? Head::sigmoid : Head::softmax;
}

void write_text(const std::string& path, const std::string& text) {
  data::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

Json config_json(const BertClassifier& model, const std::vector<std::string>& names) {
  const ClassifierConfig& c = model.config();
  const bool pooler = c.pooling == Pooling::pooler;
  Json id2label = Json::object(), label2id = Json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    id2label[std::to_string(i)] = names[i];
    label2id[names[i]] = i;
  }
  // With the pooler this is Hugging Face's own classifier. Without it no class of theirs computes the same function:
  // the encoder loads as BertModel, the head lies beside it.
  return {
      {"architectures", {pooler ? "BertForSequenceClassification" : "BertModel"}},
      {"model_type", "bert"},
      {"vocab_size", c.bert.vocab_size},
      {"hidden_size", c.bert.hidden_size},
      {"num_hidden_layers", c.bert.num_hidden_layers},
      {"num_attention_heads", c.bert.num_attention_heads},
      {"intermediate_size", c.bert.intermediate_size},
      {"hidden_act", "gelu"},
      {"hidden_dropout_prob", c.bert.hidden_dropout_prob},
      {"attention_probs_dropout_prob", c.bert.attention_probs_dropout_prob},
      {"classifier_dropout", c.head_dropout},
      {"max_position_embeddings", c.bert.max_position_embeddings},
      {"type_vocab_size", c.bert.type_vocab_size},
      {"initializer_range", c.bert.initializer_range},
      {"layer_norm_eps", c.bert.layer_norm_eps},
      {"position_embedding_type", "absolute"},
      {"pad_token_id", 0},
      {"problem_type", "single_label_classification"},
      {"id2label", id2label},
      {"label2id", label2id},
      {"mixtape", {{"pooling", pooler ? "pooler" : "cls"}, {"head", c.head == Head::sigmoid ? "sigmoid" : "softmax"}}}};
}

NamedTensors weights_of(const BertClassifier& model) {
  NamedTensors tensors;
  for (const NamedTensor& parameter : model.parameters()) {
    Tensor value = to(parameter.tensor.detach(), {});  // files are written on the CPU
    if (model.config().head == Head::sigmoid && parameter.name.starts_with("classifier.")) {
      value = ops::concat({zeros(value.shape(), value.dtype()), value}, 0);  // softmax([0, z]) = [1 - σ(z), σ(z)]
    }
    tensors.push_back({parameter.name, value});
  }
  return tensors;
}

}  // namespace

PretrainedInfo read_pretrained(const std::string& dir) {
  const std::string path = dir + "/config.json";
  const Json json = read_json(path, "E-MODEL-MISSING");
  PretrainedInfo info;
  info.bert = bert_config(json, path);
  info.class_names = class_names(json, path);
  read_mixtape_entry(json, path, info);
  if (std::filesystem::exists(dir + "/vocab.txt")) info.vocab = dir + "/vocab.txt";
  const std::string tokenizer_path = dir + "/tokenizer_config.json";
  if (std::filesystem::exists(tokenizer_path)) {
    const Json tokenizer = read_json(tokenizer_path, "E-MODEL-MISSING");
    if (tokenizer.contains("do_lower_case") && tokenizer["do_lower_case"].is_boolean())
      info.lowercase = tokenizer["do_lower_case"].get<bool>();
    if (tokenizer.contains("model_max_length") && tokenizer["model_max_length"].is_number_integer()) {
      info.model_max_length = tokenizer["model_max_length"].get<int64_t>();
    }
  }
  return info;
}

void save_pretrained(const std::string& dir, const BertClassifier& model, const std::vector<std::string>& class_names,
                     const data::Tokenizer& tokenizer) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) fail(ErrorKind::io, "E-IO-WRITE", message(dir, ": cannot be created: ", error.message()));
  write_text(dir + "/config.json", config_json(model, class_names).dump(2) + "\n");
  data::write_safetensors(dir + "/model.safetensors", weights_of(model));
  std::string vocab;
  for (int64_t id = 0; id < tokenizer.vocab().size(); ++id) vocab.append(tokenizer.vocab().token(id)).push_back('\n');
  write_text(dir + "/vocab.txt", vocab);
  const Json special = {{"unk_token", "[UNK]"},
                        {"sep_token", "[SEP]"},
                        {"pad_token", "[PAD]"},
                        {"cls_token", "[CLS]"},
                        {"mask_token", "[MASK]"}};
  Json settings = special;
  settings["tokenizer_class"] = "BertTokenizer";
  settings["do_lower_case"] = tokenizer.options().lowercase;
  settings["model_max_length"] =
      tokenizer.options().max_length > 0 ? tokenizer.options().max_length : model.config().bert.max_position_embeddings;
  write_text(dir + "/tokenizer_config.json", settings.dump(2) + "\n");
  write_text(dir + "/special_tokens_map.json", special.dump(2) + "\n");
}

}  // namespace mixtape::models

// Weights of a user's directory into a model: names old and new, prefixes, heads, what is missing and what is left
// over.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/factory.h"
#include "core/parameter.h"
#include "data/safetensors.h"
#include "models/pretrained.h"
#include "tests/shared.h"
#include "tests/torch_files.h"

namespace mixtape::models {
namespace {
using namespace tests;
using Rename = std::function<std::string(std::string)>;

ClassifierConfig small(Pooling pooling = Pooling::pooler) {
  ClassifierConfig config;
  config.bert = {.vocab_size = 11,
                 .hidden_size = 4,
                 .num_hidden_layers = 2,
                 .num_attention_heads = 2,
                 .intermediate_size = 6,
                 .max_position_embeddings = 5};
  config.pooling = pooling;
  return config;
}

std::string replaced(std::string name, const std::string& from, const std::string& to) {
  const size_t at = name.find(from);
  return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

/// The weights of a model under other names; a name that becomes empty is left out.
NamedTensors weights_of(const BertClassifier& model, const Rename& rename) {
  NamedTensors out;
  for (const NamedTensor& parameter : model.parameters()) {
    const std::string name = rename(parameter.name);
    if (!name.empty()) out.push_back({name, parameter.tensor.detach()});
  }
  return out;
}

bool is_head(const std::string& name) { return name.rfind("classifier", 0) == 0; }
std::string without_head(const std::string& name) { return is_head(name) ? "" : name; }

void check_same_encoder(const BertClassifier& a, const BertClassifier& b) {
  const NamedTensors x = a.parameters(), y = b.parameters();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i].name);
    if (!is_head(x[i].name)) CHECK(to_vector(x[i].tensor) == to_vector(y[i].tensor));
  }
}

/// The tensors as the older form of a PyTorch checkpoint.
std::string as_stream(const NamedTensors& tensors) {
  std::vector<Member> members;
  std::vector<StreamStorage> storages;
  for (const auto& [name, tensor] : tensors) {
    TorchSpec spec;
    spec.key = std::to_string(storages.size());
    spec.storage_elements = tensor.numel();
    spec.shape.assign(tensor.shape().begin(), tensor.shape().end());
    spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
    members.push_back({name, tensor_op(spec)});
    storages.push_back(
        {spec.key, 4, {static_cast<const char*>(tensor.view().data), static_cast<size_t>(tensor.numel()) * 4}});
  }
  return torch_stream(dict_op(members), storages);
}

std::string load_error(const BertClassifier& model, const std::string& dir) {
  const auto error = error_of([&] { (void)load_pretrained(model, dir); });
  if (!error) return "no error";
  CHECK(error->exit_code() == 4);
  return error->code() + ": " + error->what();
}
}  // namespace

TEST_CASE("a config.json of another model is refused, with the file and the key") {
  const TempFolder folder;
  const auto refused = [&](const std::string& json) {
    folder.write("config.json", "{" + json + "}");
    const auto error = error_of([&] { (void)read_pretrained(folder.path()); });
    return error ? error->code() + message(" ", error->exit_code(), " ", error->what()) : "accepted";
  };
  const std::string start = "E-MODEL-CONFIG-FILE 4 " + folder.path("config.json: ");
  CHECK(refused("\"model_type\": \"bert\", \"is_decoder\": false, \"hidden_act\": \"gelu\"") == "accepted");
  CHECK(refused("\"model_type\": \"roberta\"") ==
        start + "\"model_type\": \"roberta\" is not supported, only \"bert\"");
  CHECK(refused("\"is_decoder\": true") == start + "\"is_decoder\": true is not supported, only false");
  CHECK(refused("\"add_cross_attention\": true") ==
        start + "\"add_cross_attention\": true is not supported, only false");
  CHECK(refused("\"hidden_act\": \"gelu_new\"") ==
        start + "\"hidden_act\": \"gelu_new\" is not supported, only \"gelu\"");
  CHECK(contains(refused("\"position_embedding_type\": \"relative_key\""), "only \"absolute\""));
  CHECK(refused("\"hidden_size\": 16, \"num_attention_heads\": 5") ==
        start + "num_attention_heads = 5: must be a divisor of hidden_size 16");
  CHECK(refused("\"num_attention_heads\": 0") == start + "num_attention_heads = 0: must be >= 1");
  CHECK(refused("\"hidden_dropout_prob\": 1") == start + "hidden_dropout_prob = 1: must be in [0, 1)");
  CHECK(contains(refused("\"hidden_size\": 16.5"), "must be an integer"));
}

TEST_CASE("load: the same encoder under every name that it comes with") {
  const BertClassifier model(small(), 5);
  const std::vector<Rename> names = {
      [](std::string name) { return name; },
      without_head,
      [](std::string name) { return replaced(without_head(name), "bert.", ""); },
      [](std::string name) {
        return replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
      },
      [](std::string name) { return "module." + name; },
      [](std::string name) { return "state_dict.model." + name; },
  };
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(i);
    const TempFolder folder;
    const NamedTensors tensors = weights_of(model, names[i]);
    data::write_safetensors(folder.path("model.safetensors"), tensors);
    const BertClassifier from_safetensors(small());
    const LoadReport report = load_pretrained(from_safetensors, folder.path());
    CHECK(report.head_loaded == (tensors.size() == model.parameters().size()));
    CHECK(report.unused.empty());
    CHECK(report.has_pooler);
    check_same_encoder(model, from_safetensors);

    const TempFolder old;
    old.write("pytorch_model.bin", as_stream(tensors));
    const BertClassifier from_torch(small());
    CHECK(load_pretrained(from_torch, old.path()).file == old.path("pytorch_model.bin"));
    check_same_encoder(model, from_torch);
  }
}

TEST_CASE("load: heads of other tasks and buffers are left over and named; the progress counts every tensor") {
  const BertClassifier model(small(Pooling::cls), 5);
  const TempFolder folder;
  NamedTensors tensors = weights_of(model, without_head);
  tensors.push_back({"cls.predictions.bias", zeros({11})});
  tensors.push_back({"bert.embeddings.position_ids", from_ints({0, 1, 2, 3, 4}, {1, 5})});
  tensors.push_back({"layer_scale.gamma", zeros({4})});
  data::write_safetensors(folder.path("model.safetensors"), tensors);
  folder.write("pytorch_model.bin", "not looked into");
  const BertClassifier other(small(Pooling::cls));
  int64_t calls = 0;
  const LoadReport report = load_pretrained(other, folder.path(), [&](int64_t done, int64_t total) {
    CHECK(done == calls++);
    CHECK(total == static_cast<int64_t>(model.parameters().size()) - 2);
  });
  CHECK(calls == report.loaded);
  CHECK(report.unused ==
        std::vector<std::string>{"bert.embeddings.position_ids", "cls.predictions.bias", "layer_scale.gamma"});
  CHECK(report.passed_over == std::vector<std::string>{folder.path("pytorch_model.bin")});
  CHECK_FALSE(report.has_pooler);
  CHECK(contains(report.head_note, "no classifier"));
  check_same_encoder(model, other);
}

TEST_CASE("load: a pooler that is used must be there; two tensors for one parameter are refused") {
  const BertClassifier model(small(), 5);
  const TempFolder folder;
  data::write_safetensors(folder.path("model.safetensors"), weights_of(model, [](std::string name) {
                            return name.find("pooler") == std::string::npos ? name : "";
                          }));
  const std::string error = load_error(BertClassifier(small()), folder.path());
  CHECK(contains(error, "missing: bert.pooler.dense.weight [4, 4] (set model.pooling to cls"));
  CHECK(contains(error, "missing: bert.pooler.dense.bias"));
  CHECK(load_error(BertClassifier(small(Pooling::cls)), folder.path()) == "no error");

  NamedTensors twice = weights_of(model, [](std::string name) { return name; });
  twice.push_back({"embeddings.LayerNorm.weight", zeros({4})});
  data::write_safetensors(folder.path("model.safetensors"), twice);
  CHECK(contains(load_error(BertClassifier(small()), folder.path()), "are both meant for"));
}

TEST_CASE("load: 16-bit weights are widened, integers are no weights") {
  const BertClassifier model(small(), 5);
  for (const DType dtype : {DType::f16, DType::bf16, DType::i32}) {
    const TempFolder folder;
    NamedTensors tensors = weights_of(model, [](std::string name) { return name; });
    for (NamedTensor& tensor : tensors) tensor.tensor = copy_of(tensor.tensor, dtype);
    data::write_safetensors(folder.path("model.safetensors"), tensors);
    const BertClassifier other(small());
    if (dtype == DType::i32) {
      CHECK(contains(load_error(other, folder.path()), "misshapen: bert.embeddings.LayerNorm.bias is i32"));
      continue;
    }
    load_pretrained(other, folder.path());
    const std::vector<double> narrow = to_vector(copy_of(model.parameters()[0].tensor, dtype));
    CHECK(to_vector(other.parameters()[0].tensor) == narrow);
    CHECK(other.parameters()[0].tensor.dtype() == DType::f32);
  }
}

TEST_CASE("load: a head that is drawn alone has the numbers that it has in a drawn model") {
  const BertClassifier drawn(small(), 5), bare(small());
  bare.draw_head(5);
  const NamedTensors a = drawn.parameters(), b = bare.parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name == "classifier.weight") CHECK(to_vector(a[i].tensor) == to_vector(b[i].tensor));
    if (a[i].name == "bert.pooler.dense.weight") CHECK(to_vector(a[i].tensor) != to_vector(b[i].tensor));
  }
}

}  // namespace mixtape::models

// BERT against double-precision outputs of another implementation, and against the three mistakes that ports make.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/backward.h"
#include "core/factory.h"
#include "data/safetensors.h"
#include "models/pretrained.h"
#include "tests/shared.h"

using namespace mixtape;
using models::BertClassifier;
using models::BertInput;
using nlohmann::json;
using tests::no_shared;
using tests::shared_path;
using tests::TempFolder;

namespace {

models::ClassifierConfig small() {
  models::ClassifierConfig c;
  c.bert.vocab_size = 40;
  c.bert.hidden_size = 16;
  c.bert.num_hidden_layers = 2;
  c.bert.num_attention_heads = 2;
  c.bert.intermediate_size = 24;
  c.bert.max_position_embeddings = 12;
  return c;
}
BertInput some_input() {
  BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 0}, {2, 4});
  input.attention_mask = from_bools({true, true, true, true, true, true, true, false}, {2, 4});
  input.token_types = from_ints({0, 0, 0, 0, 0, 0, 0, 0}, {2, 4});
  return input;
}

struct Golden {
  json cases;
  BertInput input;  // all cases as one padded batch
};
Golden read_cases(const std::string& path, bool with_masks) {
  Golden golden;
  std::ifstream(path) >> golden.cases;
  size_t longest = 0;
  for (const json& c : golden.cases) longest = std::max(longest, c["input_ids"].size());
  std::vector<int64_t> ids, types;
  std::vector<bool> mask;
  for (const json& c : golden.cases) {
    for (size_t i = 0; i < longest; ++i) {
      const bool inside = i < c["input_ids"].size();
      ids.push_back(inside ? c["input_ids"][i].get<int64_t>() : 0);
      mask.push_back(inside && (!with_masks || c["attention_mask"][i].get<int>() == 1));
      types.push_back(inside && with_masks ? c["token_type_ids"][i].get<int64_t>() : 0);
    }
  }
  const Shape shape{static_cast<int64_t>(golden.cases.size()), static_cast<int64_t>(longest)};
  golden.input = {from_ints(ids, shape), from_ints(types, shape), from_bools(mask, shape)};
  return golden;
}

void replace(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

double worst(const Tensor& got, const std::vector<double>& want, size_t start = 0) {
  const std::vector<double> values = to_vector(got);
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(values.at(start + i) - want[i]));
  return largest;
}

}  // namespace

TEST_CASE("tiny-synthetic: every golden hidden state as one padded batch, f32 and bf16 weights") {
  if (no_shared()) return;
  const std::string dir = shared_path("data/bert/tiny-synthetic");
  for (const bool low : {false, true}) {
    const TempFolder folder;
    const std::string home = folder.path();
    replace(dir + (low ? "/model_bf16.safetensors" : "/model.safetensors"), home + "/model.safetensors");
    replace(dir + "/config.json", home + "/config.json");
    models::ClassifierConfig config;
    config.bert = models::read_pretrained(home).bert;
    config.pooling = models::Pooling::pooler;
    const BertClassifier model(config, 1);
    const models::LoadReport report = models::load_pretrained(model, home);
    CHECK(report.unused.empty());
    CHECK(report.loaded == 39);
    CHECK(!report.head_loaded);

    const Golden golden = read_cases(dir + "/expected.json", true);
    const NoGradGuard guard;
    const models::Bert::Output out = model.bert().forward(golden.input, false);
    const Tensor pooled = model.bert().pooled(golden.input, false);
    const size_t seq = static_cast<size_t>(golden.input.ids.size(1)), width = 16;
    double error = 0;
    for (size_t i = 0; i < golden.cases.size(); ++i) {
      const json& want = golden.cases[i][low ? "bf16" : "f32"];
      error = std::max(error, worst(out.embeddings, want["embedding_output_cls"], i * seq * width));
      error = std::max(error, worst(out.layers[0], want["layer0_cls"], i * seq * width));
      error = std::max(error, worst(pooled, want["pooler_output"], i * width));
      size_t position = 0, real = 0;
      for (const json& row : want["last_hidden_state"]) {
        while (golden.cases[i]["attention_mask"][position] == 0) ++position;
        error = std::max(error, worst(out.layers.back(), row, (i * seq + position) * width));
        ++position;
        ++real;
      }
      CHECK(real > 0);
    }
    MESSAGE("largest error " << error);
    CHECK(error < 1e-5);
  }
}

TEST_CASE("legacy pre-training names: the same weights, the heads named as unused") {
  if (no_shared()) return;
  const std::string dir = shared_path("data/bert/tiny-synthetic");
  const TempFolder folder;
  const std::string home = folder.path();
  replace(dir + "/pretraining_legacy_names.safetensors", home + "/model.safetensors");
  replace(dir + "/config.json", home + "/config.json");
  models::ClassifierConfig config;
  config.bert = models::read_pretrained(home).bert;
  const BertClassifier legacy(config, 1);
  const models::LoadReport report = models::load_pretrained(legacy, home);
  bool names_heads = false;
  for (const std::string& name : report.unused) names_heads = names_heads || name.starts_with("cls.");
  CHECK(names_heads);
  replace(dir + "/model.safetensors", home + "/model.safetensors");
  const BertClassifier plain(config, 1);
  models::load_pretrained(plain, home);
  const NamedTensors a = legacy.parameters(), b = plain.parameters();
  for (size_t i = 0; i < a.size(); ++i) CHECK(to_vector(a[i].tensor) == to_vector(b[i].tensor));
}

TEST_CASE("minilm: real weights, five sentences") {
  const std::string dir = MIXTAPE_SOURCE_DIR "/downloads/minilm";
  if (no_shared()) return;
  if (!std::filesystem::exists(dir + "/model.safetensors")) {
    std::cerr << "skipped: no downloads/minilm\n";
    return;
  }
  const std::string golden_path = shared_path("data/minilm/forward.json");
  models::ClassifierConfig config;
  config.bert = models::read_pretrained(dir).bert;
  config.pooling = models::Pooling::pooler;
  const BertClassifier model(config, 1);
  models::load_pretrained(model, dir);
  const Golden golden = read_cases(golden_path, false);
  const NoGradGuard guard;
  const Tensor hidden = model.bert().forward(golden.input, false).layers.back();
  const Tensor pooled = model.bert().pooled(golden.input, false);
  const size_t seq = static_cast<size_t>(golden.input.ids.size(1)), width = 384;
  double error = 0;
  for (size_t i = 0; i < golden.cases.size(); ++i) {
    error = std::max(error, worst(hidden, golden.cases[i]["cls"], i * seq * width));
    error = std::max(error, worst(pooled, golden.cases[i]["pooler"], i * width));
    const int64_t row = static_cast<int64_t>(i), real = std::ssize(golden.cases[i]["input_ids"]);
    const Tensor positions = ops::slice(ops::slice(hidden, 0, row, row + 1), 1, 0, real);
    error = std::max(error, worst(ops::mean(positions, 1), golden.cases[i]["mean"]));  // every position
  }
  MESSAGE("largest error " << error);
  CHECK(error < 1e-5);
}

TEST_CASE("padding changes no real position, and masked keys are never seen") {
  const BertClassifier model(small(), 3);
  const NoGradGuard guard;
  BertInput input = some_input();
  const std::vector<double> padded = to_vector(model.logits(input, false));
  const BertInput alone{from_ints({2, 7, 3}, {1, 3}), {}, {}};
  CHECK(to_vector(model.logits(alone, false))[0] == doctest::Approx(padded[1]).epsilon(1e-6));
  BertInput other = input;
  other.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 31}, {2, 4});  // another token under the padding
  CHECK(to_vector(model.logits(other, false)) == padded);
}

TEST_CASE("mask, token types and erf-GELU matter") {
  const BertClassifier model(small(), 3);
  const NoGradGuard guard;
  const BertInput input = some_input();
  const std::vector<double> right = to_vector(model.logits(input, false));
  BertInput no_mask = input;
  no_mask.attention_mask = {};
  CHECK(to_vector(model.logits(no_mask, false))[1] != doctest::Approx(right[1]).epsilon(1e-5));
  BertInput second_segment = input;
  second_segment.token_types = from_ints({0, 0, 1, 1, 0, 1, 1, 0}, {2, 4});
  CHECK(to_vector(model.logits(second_segment, false))[0] != doctest::Approx(right[0]).epsilon(1e-5));
}

TEST_CASE("weights are a pure function of seed and name; activation checkpointing changes no bit") {
  models::ClassifierConfig config = small();
  const BertClassifier a(config, 3), b(config, 3), c(config, 4);
  config.activation_checkpointing = true;
  const BertClassifier d(config, 3);
  const auto gradients = [&](const BertClassifier& model) {
    RngCoordinates at;
    at.seed = 9;
    const RngGuard rng(at);
    autograd::backward(model.loss_of(model.logits(some_input(), true), from({1, 0}, {2}), 2));
    std::vector<double> all;
    for (const NamedTensor& p : model.parameters()) {
      const std::vector<double> g = to_vector(p.tensor.grad());
      all.insert(all.end(), g.begin(), g.end());
    }
    return all;
  };
  const std::vector<double> ga = gradients(a);
  CHECK(ga == gradients(b));
  CHECK(ga == gradients(d));
  CHECK(ga != gradients(c));
}

TEST_CASE("a saved directory reads back: the same probabilities, a sigmoid head from its two-way form") {
  for (const models::Head head : {models::Head::sigmoid, models::Head::softmax}) {
    for (const models::Pooling pooling : {models::Pooling::cls, models::Pooling::pooler}) {
      const TempFolder folder;
      const std::string home = folder.path();
      models::ClassifierConfig config = small();
      config.head = head;
      config.pooling = pooling;
      const BertClassifier model(config, 5);
      const data::Tokenizer tokenizer(data::Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", "test"));
      models::save_pretrained(home, model, {"no", "yes"}, tokenizer);
      const models::PretrainedInfo info = models::read_pretrained(home);
      CHECK(info.class_names == std::vector<std::string>{"no", "yes"});
      CHECK(info.pooling == pooling);
      CHECK(info.head == head);
      const BertClassifier again(config, 6);
      const models::LoadReport report = models::load_pretrained(again, home);
      CHECK(report.head_loaded);
      CHECK(report.unused.empty());
      const NoGradGuard guard;
      CHECK(to_vector(model.logits(some_input(), false)) == to_vector(again.logits(some_input(), false)));
    }
  }
}

TEST_CASE("every missing and misshapen tensor is named, and the model is left alone") {
  const TempFolder folder;
  const std::string home = folder.path();
  const BertClassifier model(small(), 5);
  NamedTensors tensors;
  for (const NamedTensor& p : model.parameters()) {
    if (p.name == "bert.encoder.layer.1.output.dense.bias") continue;
    tensors.push_back({p.name, p.name == "bert.embeddings.LayerNorm.weight" ? zeros({3}) : p.tensor.detach()});
  }
  tensors.push_back({"layer_scale.gamma", zeros({2})});
  data::write_safetensors(home + "/model.safetensors", tensors);
  const BertClassifier other(small(), 6);
  const std::vector<double> before = to_vector(other.parameters()[0].tensor);
  std::string what;
  try {
    models::load_pretrained(other, home);
  } catch (const Error& error) {
    what = error.what();
    CHECK(error.exit_code() == 4);
  }
  CHECK(what.find("missing: bert.encoder.layer.1.output.dense.bias") != std::string::npos);
  CHECK(what.find("misshapen: bert.embeddings.LayerNorm.weight") != std::string::npos);
  CHECK(to_vector(other.parameters()[0].tensor) == before);
}

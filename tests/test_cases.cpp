// Single cases of shared/cases that no other file has in these very numbers. tests/CASES.md says where each case is
// tested.
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <limits>

#include "amp/autocast.h"
#include "data/safetensors.h"
#include "data/tweet_eval.h"
#include "data/vocab.h"
#include "models/classifier.h"
#include "ops/ops.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "tests/scaler.h"
#include "tests/shared.h"

namespace mixtape::tests {
namespace {
using Values = std::vector<double>;

/// The header of BERT-base's file: 199 tensors under Hugging Face's names, one after the other.
std::string bert_base_header(uint64_t& file_size) {
  std::string json = "{";
  uint64_t at = 0;
  const auto add = [&](const std::string& name, uint64_t rows, uint64_t columns) {
    const std::string shape = columns == 0 ? message(static_cast<int64_t>(rows))
                                           : message(static_cast<int64_t>(rows), ",", static_cast<int64_t>(columns));
    const uint64_t end = at + 4 * rows * (columns == 0 ? 1 : columns);
    json += message(json.size() == 1 ? "" : ",", "\"", name, R"(":{"dtype":"F32","shape":[)", shape,
                    R"(],"data_offsets":[)", static_cast<int64_t>(at), ",", static_cast<int64_t>(end), "]}");
    at = end;
  };
  const auto dense = [&](const std::string& name, uint64_t out, uint64_t in) {
    add(name + ".weight", out, in);
    add(name + ".bias", out, 0);
  };
  add("bert.embeddings.word_embeddings.weight", 30522, 768);
  add("bert.embeddings.position_embeddings.weight", 512, 768);
  add("bert.embeddings.token_type_embeddings.weight", 2, 768);
  dense("bert.embeddings.LayerNorm", 768, 0);
  for (int layer = 0; layer < 12; ++layer) {
    const std::string prefix = message("bert.encoder.layer.", layer, ".");
    for (const char* name :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"})
      dense(prefix + name, 768, 768);
    dense(prefix + "attention.output.LayerNorm", 768, 0);
    dense(prefix + "intermediate.dense", 3072, 768);
    dense(prefix + "output.dense", 768, 3072);
    dense(prefix + "output.LayerNorm", 768, 0);
  }
  dense("bert.pooler.dense", 768, 768);
  json += "}";
  const uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  file_size = 8 + length + at;
  return bytes + json;
}

models::ClassifierConfig four_word_bert() {
  models::ClassifierConfig out;
  out.bert = {.vocab_size = 4,
              .hidden_size = 8,
              .num_hidden_layers = 1,
              .num_attention_heads = 2,
              .intermediate_size = 16,
              .max_position_embeddings = 3};
  return out;
}

}  // namespace

TEST_CASE("case_31: a forward that is not finite leaves nothing behind, nor in the evaluation after it") {
  const models::BertClassifier model(four_word_bert(), 1);
  const NamedTensors parameters = model.parameters();
  const Tensor words = parameters[0].tensor;
  REQUIRE(words.shape() == Shape{4, 8});
  std::vector<double> rows = to_vector(words);
  std::fill(rows.end() - 8, rows.end(), std::numeric_limits<double>::infinity());  // word 3 makes NaN of a norm
  assign(words, from(rows, {4, 8}));
  optim::AdamW optimizer(parameters);
  amp::GradScaler scaler;
  const auto all_bits = [&] {
    std::vector<uint64_t> out;
    for (const NamedTensors& tensors : {parameters, optimizer.state()})
      for (const NamedTensor& entry : tensors)
        for (const double value : to_vector(entry.tensor)) out.push_back(std::bit_cast<uint64_t>(value));
    return out;
  };
  const auto logits = [&](const std::vector<int64_t>& ids, bool train) {
    const amp::Autocast guard(DType::f16);
    return model.logits(models::BertInput{.ids = from_ints(ids, {1, 3})}, train);
  };
  const auto train_on = [&](const std::vector<int64_t>& ids) {
    const Tensor out = logits(ids, true);
    const amp::Autocast guard(DType::f16);
    return one_step(scaler, optimizer, model.loss_of(out, from({1}, {1}), 1));
  };
  const auto evaluate = [&] {
    const NoGradGuard no_grad;
    return to_vector(logits({0, 1, 2}, false));
  };
  CHECK(train_on({0, 1, 2}) == optim::StepResult::applied);
  const Values before = evaluate();
  const std::vector<uint64_t> bits = all_bits();
  CHECK(std::isfinite(before[0]));
  CHECK(train_on({0, 3, 2}) == optim::StepResult::skipped_nonfinite_loss);
  CHECK(evaluate() == before);
  CHECK(all_bits() == bits);
  CHECK(train_on({0, 1, 2}) == optim::StepResult::applied);
  CHECK(evaluate() != before);
}

TEST_CASE("case_49: the larger of two halves is selected, not computed") {
  const Tensor a = from({60000, -65504}, {2}, DType::f16), b = from({49984, 65504}, {2}, DType::f16);
  CHECK(to_vector(ops::maximum(a, b)) == Values{60000, 65504});
  CHECK(to_vector(ops::minimum(a, b)) == Values{49984, -65504});
}

TEST_CASE("case_52: clipping never multiplies by NaN") {
  const Tensor w = leaf({0, 0});
  autograd::backward(ops::sum(ops::mul(w, from({std::nan(""), 1}, {2}))));
  CHECK(std::isnan(optim::clip_grad_norm({{"w", w}}, 1.0)));
  CHECK(to_vector(w.grad())[1] == 1);
}

TEST_CASE("case_58: 64 micro-batches of 2^-9 on a bf16 parameter's gradient of 1 give 1.125") {
  const Tensor w = from({0}, {1}, DType::bf16).set_requires_grad();
  autograd::backward(ops::sum(ops::mul(w, from({1}, {1}, DType::bf16))));
  for (int i = 0; i < 64; ++i) autograd::backward(ops::sum(ops::mul(w, from({0x1p-9}, {1}, DType::bf16))));
  CHECK(w.grad().dtype() == DType::f32);
  CHECK(to_vector(w.grad()) == Values{1.125});
}

TEST_CASE("bug_B26: lines end at LF alone") {
  const TempFolder folder;
  folder.write("mapping.txt", "0\tno\n1\tyes\n");
  folder.write("train_labels.txt", "0\n1\n0\n");
  const std::string middle = "b\u2028\u2029\u0085\v\f\rb";
  folder.write("train_text.txt", "a\r\n" + middle + "\nc");
  const data::Dataset set = data::read_tweet_eval(folder.path(), "train");
  CHECK(set.texts == std::vector<std::string>{"a", middle, "c"});
  CHECK(set.labels == std::vector<int32_t>{0, 1, 0});
}

TEST_CASE("bug_B29: names belong to the ids of mapping.txt, sorted as numbers") {
  const TempFolder folder;
  std::string mapping;
  for (const int id : {10, 2, 0, 11, 1, 9, 3, 8, 4, 7, 5, 6}) mapping += message(id, "\tclass ", id, "\n");
  folder.write("mapping.txt", mapping);
  const std::vector<std::string> names = data::read_class_names(folder.path());
  REQUIRE(names.size() == 12);
  for (int id = 0; id < 12; ++id) CHECK(names[static_cast<size_t>(id)] == message("class ", id));
}

TEST_CASE("bug_B44: a vocabulary of one endless line is refused, BERT-base's header is read in 5 ms") {
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  const auto read = [&](size_t length) {
    return error_text([&] { (void)data::Vocab::parse(special + std::string(length, 'a'), "v.txt"); });
  };
  CHECK(read(10'000'000) == "no error");  // a token that no text can hold, within the limit of the file
  CHECK(contains(read(20'000'000), "E-VOCAB-SIZE"));

  uint64_t file_size = 0;
  const std::string header = bert_base_header(file_size);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto parsed = data::parse_safetensors(std::as_bytes(std::span(header.data(), header.size())), file_size);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    REQUIRE(parsed.value);
    CHECK(parsed.value->tensors.size() == 199);
  }
  MESSAGE("BERT-base's header: ", best * 1e3, " ms");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
  CHECK(best < 5e-3);
#endif
}

}  // namespace mixtape::tests

// Which op of a BERT step runs in which dtype: the ledger against a table written by hand from precision.md 1.1.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "core/factory.h"
#include "models/classifier.h"

using namespace mixtape;

namespace {

// One line an op: "op calls  in -> out  scope", in the order of the first call. Views are not listed: they keep
// whatever comes. Under bf16 `L` is bf16; `f` is f32, `i` i64, `b` bool.
const std::vector<std::string> by_hand = {
    "embedding 1 f i -> L bert.embeddings.word_embeddings",        // low_out: the table stays f32, its rows are low
    "embedding 1 f i -> L bert.embeddings.token_type_embeddings",  //
    "add 2 L L -> L bert.embeddings",                              // widest of two low ones
    "embedding 1 f i -> L bert.embeddings.position_embeddings",    //
    "layer_norm 1 L f f -> L bert.embeddings.LayerNorm",           // keep: the residual stream stays low, γ and β f32
    "dropout 1 L -> L bert.embeddings.dropout",                    //
    "cast 1 f -> L bert.encoder.layer.0.attention.self.query",     // each weight once
    "linear 1 L L f -> L bert.encoder.layer.0.attention.self.query",    // low: data and weight; the bias stays f32
    "cast 1 f -> L bert.encoder.layer.0.attention.self.key",            //
    "linear 1 L L f -> L bert.encoder.layer.0.attention.self.key",      //
    "cast 1 f -> L bert.encoder.layer.0.attention.self.value",          //
    "linear 1 L L f -> L bert.encoder.layer.0.attention.self.value",    //
    "batched_matmul 2 L L -> L bert.encoder.layer.0.attention",         // scores, and weights times values
    "masked_softmax 1 L b -> L bert.encoder.layer.0.attention",         // keep: f32 inside, probabilities low
    "dropout 1 L -> L bert.encoder.layer.0.attention.self.dropout",     //
    "cast 1 f -> L bert.encoder.layer.0.attention.output.dense",        //
    "linear 1 L L f -> L bert.encoder.layer.0.attention.output.dense",  //
    "dropout 1 L -> L bert.encoder.layer.0.attention.output.dropout",   //
    "add 2 L L -> L bert.encoder.layer.0",                              // both residuals: nothing is widened
    "layer_norm 1 L f f -> L bert.encoder.layer.0.attention.output.LayerNorm",
    "cast 1 f -> L bert.encoder.layer.0.intermediate.dense",          //
    "linear 1 L L f -> L bert.encoder.layer.0.intermediate.dense",    //
    "gelu 1 L -> L bert.encoder.layer.0",                             // keep: erf in f32 inside
    "cast 1 f -> L bert.encoder.layer.0.output.dense",                //
    "linear 1 L L f -> L bert.encoder.layer.0.output.dense",          //
    "dropout 1 L -> L bert.encoder.layer.0.output.dropout",           //
    "layer_norm 1 L f f -> L bert.encoder.layer.0.output.LayerNorm",  //
    "cast 1 f -> L bert.pooler.dense",                                //
    "linear 1 L L f -> L bert.pooler.dense",                          //
    "tanh 1 L -> L bert",                                             // keep
    "dropout 1 L -> L dropout",                                       //
    "cast 1 f -> L classifier",                                       //
    "linear 1 L L f -> L classifier",                                 //
    "cast 1 L -> f loss",                                             // full: the logits go up
    "bce_with_logits 1 f f -> f loss",                                // and the loss is f32
};

std::string letter(DType dtype, DType low) {
  if (dtype == low) return "L";
  if (dtype == DType::f32) return "f";
  return dtype == DType::i64 ? "i" : dtype == DType::boolean ? "b" : std::string(name_of(dtype));
}

std::vector<std::string> lines_of(const amp::Ledger& ledger, DType low) {
  std::vector<std::string> lines;
  for (const amp::LedgerRow& row : ledger.forward()) {
    if (row.op == "reshape" || row.op == "permute" || row.op == "slice" || row.op == "transpose") continue;
    std::string line = message(row.op, " ", row.calls);
    for (const DType dtype : row.in) line += " " + letter(dtype, low);
    lines.push_back(line + " -> " + letter(row.out[0], low) + " " + row.scope);
  }
  return lines;
}

}  // namespace

TEST_CASE("the ledger of a BERT step equals the table written by hand, in both 16-bit dtypes") {
  models::ClassifierConfig config;
  config.bert.vocab_size = 40;
  config.bert.hidden_size = 16;
  config.bert.num_hidden_layers = 1;
  config.bert.num_attention_heads = 2;
  config.bert.intermediate_size = 24;
  config.bert.max_position_embeddings = 12;
  config.pooling = models::Pooling::pooler;
  const models::BertClassifier model(config, 1);
  (void)model.parameters();
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 0}, {2, 4});
  input.token_types = zeros({2, 4}, DType::i64);
  input.attention_mask = from_bools({true, true, true, true, true, true, true, false}, {2, 4});
  const Tensor labels = from({1, 0}, {2});

  for (const DType low : {DType::bf16, DType::f16}) {
    amp::Ledger ledger;
    Tensor loss;
    {
      const ObserverGuard observer(ledger.observer());
      const amp::Autocast guard(low);
      loss = model.loss_of(model.logits(input, true), labels, 2);
    }
    CHECK(loss.dtype() == DType::f32);
    std::vector<std::string> left = by_hand;
    for (const std::string& line : lines_of(ledger, low)) {
      const auto found = std::find(left.begin(), left.end(), line);
      INFO("ran, but is not in the table: " << line);
      CHECK(found != left.end());
      if (found != left.end()) left.erase(found);
    }
    for (const std::string& line : left) {
      INFO("in the table, but did not run: " << line);
      CHECK(false);
    }
  }
}

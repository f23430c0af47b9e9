// Which op of a BERT step runs in which dtype: the ledger against a table written by hand from precision.md 1.1.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "autograd/backward.h"
#include "core/factory.h"
#include "models/classifier.h"

using namespace mixtape;

namespace {

// One line an op: "op calls  in -> out  scope", in the order of the first call. Views are not listed: they keep
// whatever comes. Under bf16 `L` is bf16; `f` is f32, `i` i64, `b` bool.
const std::vector<std::string> by_hand = {
    "embedding 3 f i -> L bert.embeddings",                     // low_out: tables stay f32, their rows are low
    "add 2 L L -> L bert.embeddings",                           // widest of two low ones
    "layer_norm 1 L f f -> L bert.embeddings",                  // keep: the residual stream stays low, γ and β f32
    "dropout 1 L -> L bert.embeddings",                         //
    "index_select 1 L i -> L bert.encoder.layer.0",             // the last layer: its first tokens ask
    "cast 1 f -> L bert.encoder.layer.0.attention.self.query",  // each weight once
    "linear 1 L L f -> L bert.encoder.layer.0.attention.self.query",    // low: data and weight; the bias stays f32
    "cast 2 f -> L bert.encoder.layer.0.attention.self.kv",             //
    "linear 2 L L f -> L bert.encoder.layer.0.attention.self.kv",       //
    "batched_matmul 2 L L -> L bert.encoder.layer.0.attention",         // scores, and weights times values
    "masked_softmax 1 L b -> L bert.encoder.layer.0.attention",         // keep: f32 inside, probabilities low
    "dropout 1 L -> L bert.encoder.layer.0.attention",                  //
    "index_select 2 L i -> L bert.encoder.layer.0.attention",           // the first tokens' queries, and their rows
    "cast 1 f -> L bert.encoder.layer.0.attention.output.dense",        //
    "linear 1 L L f -> L bert.encoder.layer.0.attention.output.dense",  //
    "dropout 1 L i -> L bert.encoder.layer.0.attention.output.LayerNorm",
    "add 1 L L -> L bert.encoder.layer.0.attention.output.LayerNorm",  // both residuals: nothing is widened
    "layer_norm 1 L f f -> L bert.encoder.layer.0.attention.output.LayerNorm",
    "cast 2 f -> L bert.encoder.layer.0.feed_forward",                //
    "linear 2 L L f -> L bert.encoder.layer.0.feed_forward",          //
    "gelu 1 L -> L bert.encoder.layer.0.feed_forward",                // keep: erf in f32 inside
    "dropout 1 L i -> L bert.encoder.layer.0.output.LayerNorm",       //
    "add 1 L L -> L bert.encoder.layer.0.output.LayerNorm",           //
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

// The sweep: "op calls  incoming gradient -> gradients of the inputs  scope". A gradient has the dtype of what it
// belongs to, so the low ops hand low ones on; weights and biases get theirs in f32 from the product itself.
const std::vector<std::string> sweep_by_hand = {
    "bce_with_logits 1 f -> f loss",                                  //
    "cast 1 f -> L loss",                                             // what went up comes down
    "linear 1 L -> L f f classifier",                                 // data low; weight and bias f32, not rounded
    "cast 1 f -> f classifier",                                       // so a weight's cast hands f32 on
    "dropout 1 L -> L dropout",                                       //
    "tanh 1 L -> L bert",                                             //
    "linear 1 L -> L f f bert.pooler.dense",                          //
    "cast 1 f -> f bert.pooler.dense",                                //
    "layer_norm 1 L -> L f f bert.encoder.layer.0.output.LayerNorm",  // γ and β f32
    "add 1 L -> L L bert.encoder.layer.0.output.LayerNorm",           // both residuals
    "dropout 1 L -> L bert.encoder.layer.0.output.LayerNorm",         //
    "linear 2 L -> L f f bert.encoder.layer.0.feed_forward",          //
    "cast 2 f -> f bert.encoder.layer.0.feed_forward",                //
    "gelu 1 L -> L bert.encoder.layer.0.feed_forward",                //
    "layer_norm 1 L -> L f f bert.encoder.layer.0.attention.output.LayerNorm",
    "add 1 L -> L L bert.encoder.layer.0.attention.output.LayerNorm",
    "dropout 1 L -> L bert.encoder.layer.0.attention.output.LayerNorm",
    "linear 1 L -> L f f bert.encoder.layer.0.attention.output.dense",  //
    "cast 1 f -> f bert.encoder.layer.0.attention.output.dense",        //
    "index_select 2 L -> L bert.encoder.layer.0.attention",             //
    "index_select 1 L -> L bert.encoder.layer.0",                       //
    "batched_matmul 2 L -> L L bert.encoder.layer.0.attention",         //
    "dropout 1 L -> L bert.encoder.layer.0.attention",                  //
    "masked_softmax 1 L -> L bert.encoder.layer.0.attention",           // the mask gets none
    "linear 1 L -> L f f bert.encoder.layer.0.attention.self.query",    //
    "linear 2 L -> L f f bert.encoder.layer.0.attention.self.kv",       //
    "cast 1 f -> f bert.encoder.layer.0.attention.self.query",          //
    "cast 2 f -> f bert.encoder.layer.0.attention.self.kv",             //
    "dropout 1 L -> L bert.embeddings",                                 //
    "layer_norm 1 L -> L f f bert.embeddings",                          //
    "add 2 L -> L L bert.embeddings",                                   //
    "embedding 3 L -> f bert.embeddings",                               // summed in f32, for an f32 table
};

// What runs when nothing stands in the way of the fused rows: each takes the place of the lines with a rule of its own.
const std::vector<std::string> fused = {
    "joint_linear 1 L L L f f -> L bert.encoder.layer.0.attention.self.kv",  // low: keys and values are one product
    "embed_layer_norm 1 f f f i i i f f -> L bert.embeddings",    // low_out: f32 from the tables to one rounding
    "attention 1 L L L i b -> L bert.encoder.layer.0.attention",  // low: scores and weights stay in f32 inside
    "dropout_add_layer_norm 1 L L f f i -> L bert.encoder.layer.0.attention.output.LayerNorm",  // keep
    "feed_forward 1 L L f L f -> L bert.encoder.layer.0.feed_forward",                          // low
    "dropout_add_layer_norm 1 L L f f i -> L bert.encoder.layer.0.output.LayerNorm",            //
};
const std::vector<std::string> fused_sweep = {
    "joint_linear 1 L -> L f f f f bert.encoder.layer.0.attention.self.kv",
    "embed_layer_norm 1 L -> f f f f f bert.embeddings",
    "attention 1 L -> L L L bert.encoder.layer.0.attention",
    "dropout_add_layer_norm 1 L -> L L f f bert.encoder.layer.0.attention.output.LayerNorm",
    "feed_forward 1 L -> L f f f f bert.encoder.layer.0.feed_forward",
    "dropout_add_layer_norm 1 L -> L L f f bert.encoder.layer.0.output.LayerNorm",
};
// The table of the composed ops with the fused rows instead of what they absorb.
std::vector<std::string> with_fused(std::vector<std::string> table, const std::vector<std::string>& rows) {
  const auto absorbed = [](const std::string& line) {
    for (const std::string scope :
         {".attention.self.kv", ".attention", ".attention.output.LayerNorm", ".feed_forward", ".output.LayerNorm"}) {
      if (line.ends_with("layer.0" + scope) && !line.starts_with("cast")) return true;
    }
    return line.ends_with(" bert.embeddings");
  };
  std::erase_if(table, absorbed);
  table.insert(table.end(), rows.begin(), rows.end());
  return table;
}

std::string letter(DType dtype, DType low) {
  if (dtype == low) return "L";
  if (dtype == DType::f32) return "f";
  return dtype == DType::i64 ? "i" : dtype == DType::boolean ? "b" : std::string(name_of(dtype));
}

std::vector<std::string> lines_of(const std::vector<amp::LedgerRow>& rows, DType low) {
  std::vector<std::string> lines;
  for (const amp::LedgerRow& row : rows) {
    if (row.op == "reshape" || row.op == "permute" || row.op == "slice" || row.op == "split" || row.op == "transpose") {
      continue;
    }
    std::string line = message(row.op, " ", row.calls);
    for (const DType dtype : row.in) line += " " + letter(dtype, low);
    line += " ->";
    for (const DType dtype : row.out) line += " " + letter(dtype, low);
    lines.push_back(line + " " + row.scope);
  }
  return lines;
}

void check_table(const std::vector<std::string>& ran, std::vector<std::string> table) {
  for (const std::string& line : ran) {
    const auto found = std::find(table.begin(), table.end(), line);
    INFO("ran, but is not in the table: " << line);
    CHECK(found != table.end());
    if (found != table.end()) table.erase(found);
  }
  for (const std::string& line : table) {
    INFO("in the table, but did not run: " << line);
    CHECK(false);
  }
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
    for (const bool composed : {true, false}) {
      CAPTURE(composed);
      amp::Ledger ledger;
      Tensor loss;
      {
        ContextGuard modes;
        context().fused = !composed;
        const ObserverGuard observer(ledger.observer());
        {
          const amp::Autocast guard(low);
          loss = model.loss_of(model.logits(input, true), labels, 2);
        }
        autograd::backward(loss);
      }
      CHECK(loss.dtype() == DType::f32);
      check_table(lines_of(ledger.forward(), low), composed ? by_hand : with_fused(by_hand, fused));
      check_table(lines_of(ledger.backward(), low), composed ? sweep_by_hand : with_fused(sweep_by_hand, fused_sweep));
    }
  }
}

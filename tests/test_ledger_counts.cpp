// The ledger against kernels that count for themselves: calls, bytes and products of a whole step.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "autograd/backward.h"
#include "core/factory.h"
#include "models/classifier.h"
#include "optim/sgd.h"

namespace mixtape {
namespace {

constexpr size_t most_rows = 96;

/// What the kernel of a row saw.
struct KernelCount {
  int64_t calls = 0, bytes = 0;
  double flops = 0;
};

/// While it lives, the forward kernel of every row counts before it runs. It sees views only, and knows nothing of
/// observers.
class CountedKernels {
 public:
  CountedKernels() {
    REQUIRE(registry().size() <= most_rows);
    install(std::make_index_sequence<most_rows>());
  }
  ~CountedKernels() {
    for (size_t i = 0; i < registry().size(); ++i) const_cast<OpSchema*>(registry()[i])->forward = originals[i];
  }
  CountedKernels(const CountedKernels&) = delete;
  CountedKernels& operator=(const CountedKernels&) = delete;

  std::map<std::string, KernelCount> counts() const {
    std::map<std::string, KernelCount> out;
    for (size_t i = 0; i < registry().size(); ++i) {
      if (seen[i].calls > 0) out[std::string(registry()[i]->info->name)] = seen[i];
    }
    return out;
  }

 private:
  using Forward = void (*)(const void*, const Views&, const Views&);
  static inline std::array<Forward, most_rows> originals = {};
  static inline std::array<KernelCount, most_rows> seen = {};

  template <size_t... I>
  void install(std::index_sequence<I...>) {
    seen = {};
    (install_one<I>(), ...);
  }
  template <size_t I>
  static void install_one() {
    if (I >= registry().size()) return;
    OpSchema* row = const_cast<OpSchema*>(registry()[I]);
    originals[I] = row->forward;
    row->forward = &CountedKernels::count<I>;
  }
  template <size_t I>
  static void count(const void* attrs, const Views& in, const Views& out) {
    KernelCount& here = seen[I];
    ++here.calls;
    here.bytes += bytes(in) + bytes_of(out[0]);
    here.flops += flops(registry()[I]->info->name, in, out);
    originals[I](attrs, in, out);
  }
  static int64_t bytes_of(const View& view) { return view ? view.numel() * size_of(view.dtype) : 0; }
  static int64_t bytes(const Views& views) {
    int64_t sum = 0;
    for (const View& view : views) sum += bytes_of(view);
    return sum;
  }
  /// Twice the terms of every element of a product.
  static double flops(std::string_view op, const Views& in, const Views& out) {
    const auto n = [](const View& view) { return static_cast<double>(view.numel()); };
    if (op == "linear" || op == "joint_linear") return 2 * n(out[0]) * static_cast<double>(in[0].shape.back());
    if (op == "matmul" || op == "batched_matmul") return 2 * n(out[0]) * static_cast<double>(in[0].shape.back());
    return 0;
  }
};

std::map<std::string, KernelCount> ledger_counts(const amp::Ledger& ledger, bool moved_only) {
  std::map<std::string, KernelCount> out;
  for (const amp::LedgerRow& row : ledger.forward()) {
    if (moved_only && row.bytes == 0) continue;
    KernelCount& sum = out[row.op];
    sum.calls += row.calls, sum.bytes += row.bytes, sum.flops += row.flops;
  }
  return out;
}

models::ClassifierConfig small_bert() {
  models::ClassifierConfig config;
  config.bert.vocab_size = 40;
  config.bert.hidden_size = 16;
  config.bert.num_hidden_layers = 2;
  config.bert.num_attention_heads = 2;
  config.bert.intermediate_size = 24;
  config.bert.max_position_embeddings = 12;
  return config;
}
}  // namespace

TEST_CASE("the ledger's calls, bytes and products are what kernels count that know nothing of it") {
  const models::BertClassifier model(small_bert(), 1);
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 0}, {2, 4});
  input.token_types = zeros({2, 4}, DType::i64);
  input.attention_mask = from_bools({true, true, true, true, true, true, true, false}, {2, 4});
  for (const bool composed : {true, false}) {
    CAPTURE(composed);
    ContextGuard modes;
    context().fused = !composed;
    amp::Ledger ledger;
    std::map<std::string, KernelCount> counted;
    {
      const ObserverGuard observer(ledger.observer());
      const amp::Autocast guard(DType::bf16);
      const CountedKernels kernels;
      (void)model.logits(input, true);
      counted = kernels.counts();
    }
    const auto booked = ledger_counts(ledger, true);
    for (const auto& seen : counted) {
      const std::string& op = seen.first;
      const KernelCount& count = seen.second;
      if (op == "cast") continue;  // a parameter's cast is its shadow, which no kernel of the table makes
      CAPTURE(op);
      REQUIRE(booked.contains(op));
      CHECK(booked.at(op).calls == count.calls);
      const bool reads_a_table = op == "embedding" || op == "embed_layer_norm";
      if (reads_a_table)
        CHECK(booked.at(op).bytes < count.bytes);  // a lookup reads some rows of it
      else
        CHECK(booked.at(op).bytes == count.bytes);
      if (op != "attention" && op != "feed_forward") CHECK(booked.at(op).flops == count.flops);
    }
    CHECK(ledger.totals().low_flops == ledger.totals().flops);
  }
}

TEST_CASE("a warm step: the ledger's totals are what kernels count, and no weight is cast") {
  const models::BertClassifier model(small_bert(), 1);
  const NamedTensors parameters = model.parameters();
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 5}, {2, 4});
  input.token_types = zeros({2, 4}, DType::i64);
  const Tensor labels = from({1, 0}, {2});
  const auto forward = [&] {
    const amp::Autocast guard(DType::bf16);
    return model.loss_of(model.logits(input, true), labels, 2);
  };
  optim::SGD optimizer(parameters);
  amp::Ledger first, warm;
  {
    const ObserverGuard observer(first.observer());
    autograd::backward(forward());
  }
  CHECK(optimizer.step().applied());
  std::map<std::string, KernelCount> counted;
  {
    const ObserverGuard observer(warm.observer());
    const CountedKernels kernels;
    (void)forward();
    counted = kernels.counts();
  }
  int64_t bytes = 0;
  for (const auto& seen : counted) {
    const bool reads_a_table = seen.first == "embedding" || seen.first == "embed_layer_norm";
    bytes += reads_a_table ? ledger_counts(warm, true).at(seen.first).bytes : seen.second.bytes;
  }
  CHECK(warm.totals().bytes == bytes);
  REQUIRE(counted.contains("cast"));
  CHECK(warm.totals().cast_bytes == counted.at("cast").bytes);  // the logits alone, for the loss
  CHECK(warm.totals().cast_bytes == 2 * 2 + 2 * 4);
  CHECK(first.totals().casts == warm.totals().casts);
  CHECK(first.totals().bytes - warm.totals().bytes == first.totals().cast_bytes - warm.totals().cast_bytes);
  CHECK(first.totals().cast_share > 0.1);
}

TEST_CASE("the ledger's products are the same whether ops are fused or not, in rows that are full") {
  const models::BertClassifier model(small_bert(), 1);
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 2, 7, 3, 5}, {2, 4});
  input.token_types = zeros({2, 4}, DType::i64);
  double flops[2] = {};
  for (const bool composed : {false, true}) {
    ContextGuard modes;
    context().fused = !composed;
    amp::Ledger ledger;
    const ObserverGuard observer(ledger.observer());
    (void)model.bert().forward(input, true);
    flops[composed ? 1 : 0] = ledger.totals().flops;
    CHECK(ledger.totals().low_flops == 0);
  }
  CHECK(flops[0] > 0);
  CHECK(flops[0] == flops[1]);
}

}  // namespace mixtape

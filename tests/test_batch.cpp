// Plans of an epoch and the padded tensors of a batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/factory.h"
#include "data/batch.h"
#include "data/tweet_eval.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::error_text;
using Rows = std::vector<int64_t>;
using Numbers = std::vector<double>;

/// Lengths 3 to 40 in an order that is neither sorted nor periodic.
Rows some_lengths(int64_t count) {
  Rows lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(3 + (i * i * 7 + i * 13) % 38);
  return lengths;
}

Rows flatten(const BatchPlan& plan) {
  Rows rows;
  for (const Rows& batch : plan) rows.insert(rows.end(), batch.begin(), batch.end());
  return rows;
}

bool holds_every_row_once(const BatchPlan& plan, int64_t rows) {
  Rows all = flatten(plan), expected(static_cast<size_t>(rows));
  std::sort(all.begin(), all.end());
  std::iota(expected.begin(), expected.end(), int64_t{0});
  return all == expected;
}

EncodedTexts three_texts() {
  EncodedTexts texts;
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{2, 7, 3}, {2, 3}, {2, 8, 9, 7, 3}}) texts.append(ids);
  texts.set_labels({1, 0, 1});
  return texts;
}
}  // namespace

TEST_CASE("every plan holds every row once, and only one batch is short") {
  for (const int64_t rows : {1, 2, 15, 16, 17, 799, 800, 801, 2000}) {
    const Rows lengths = some_lengths(rows);
    for (const bool shuffle : {false, true}) {
      for (const bool bucketing : {false, true}) {
        CAPTURE(rows);
        const BatchPlan plan = plan_epoch(lengths, {16, shuffle, bucketing, 42}, 3);
        CHECK(holds_every_row_once(plan, rows));
        CHECK(static_cast<int64_t>(plan.size()) == (rows + 15) / 16);
        CHECK(std::count_if(plan.begin(), plan.end(), [](const Rows& b) { return b.size() != 16; }) ==
              (rows % 16 != 0));
      }
    }
  }
  CHECK(plan_epoch({}, {}, 0).empty());
  CHECK(plan_epoch(some_lengths(3), {int64_t{1} << 62, true, true, 42}, 0).size() == 1);
  for (const int64_t size : {0, -4}) {
    CHECK(error_of([&] { (void)plan_epoch(some_lengths(3), {size, true, true, 42}, 0); })->kind() == ErrorKind::config);
  }
}

TEST_CASE("without shuffling and buckets a plan is the order of the file") {
  CHECK(plan_epoch(some_lengths(5), {2, false, false, 42}, 7) == BatchPlan{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("a plan is a function of seed and epoch alone") {
  const Rows lengths = some_lengths(1000);
  const auto plan = [&](uint64_t seed, uint32_t epoch) { return plan_epoch(lengths, {16, true, true, seed}, epoch); };
  CHECK(plan(42, 0) == plan(42, 0));
  CHECK(plan(42, 0) != plan(42, 1));
  CHECK(plan(42, 0) != plan(43, 0));
  CHECK(plan(42, 0) != plan(42 + (uint64_t{1} << 32), 0));  // all 64 bits of the seed count
}

TEST_CASE("a permutation treats all orders alike") {
  CHECK(permutation(0, 1, 0, 0).empty());
  CHECK(permutation(1, 1, 0, 0) == Rows{0});
  std::vector<int> counts(6);
  for (uint32_t epoch = 0; epoch < 6000; ++epoch) {
    const Rows p = permutation(3, 42, epoch, 0);
    ++counts[static_cast<size_t>(p[0] * 2 + (p[1] > p[2]))];
  }
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);  // five standard deviations
  CHECK(permutation(100, 42, 0, 0) != permutation(100, 42, 0, 1));
}

TEST_CASE("the permutation of a seed never changes") {
  // Checkpoints say only (seed, epoch): another order here would make every resumed run another run.
  CHECK(permutation(8, 42, 0, 0) == Rows{6, 7, 0, 2, 1, 5, 3, 4});
}

TEST_CASE("buckets: sorted by length within chunks of 50 batches") {
  const int64_t size = 4, chunk = 50 * size, rows = 3 * chunk + 30;
  const Rows lengths = some_lengths(rows);
  const auto length = [&](int64_t row) { return lengths[static_cast<size_t>(row)]; };
  SUBCASE("in file order they are chunks of the file, ties in file order") {
    const Rows order = flatten(plan_epoch(lengths, {size, false, true, 42}, 0));
    for (size_t i = 1; i < order.size(); ++i) {
      const bool same_chunk = order[i] / chunk == order[i - 1] / chunk;
      CHECK(order[i] / chunk == static_cast<int64_t>(i) / chunk);
      if (same_chunk) CHECK(std::pair(length(order[i - 1]), order[i - 1]) < std::pair(length(order[i]), order[i]));
    }
  }
  SUBCASE("shuffled, batches are of like length and come in a random order") {
    const BatchPlan plan = plan_epoch(lengths, {size, true, true, 42}, 0);
    int64_t padded = 0, total = 0;
    Rows longest;
    for (const Rows& batch : plan) {
      for (size_t i = 1; i < batch.size(); ++i) CHECK(length(batch[i - 1]) <= length(batch[i]));
      longest.push_back(length(batch.back()));
      padded += longest.back() * static_cast<int64_t>(batch.size());
      for (const int64_t row : batch) total += length(row);
    }
    CHECK(static_cast<double>(total) > 0.95 * static_cast<double>(padded));
    CHECK(!std::is_sorted(longest.begin(), longest.end()));
    const size_t half = longest.size() / 2;  // no drift from short to long over the epoch
    const double first =
        static_cast<double>(std::accumulate(longest.begin(), longest.begin() + half, int64_t{0})) / half;
    const double second = static_cast<double>(std::accumulate(longest.begin() + half, longest.end(), int64_t{0})) /
                          static_cast<double>(longest.size() - half);
    CHECK(std::abs(first - second) < 6);
  }
}

TEST_CASE("evaluation is sorted by length and never shuffled") {
  const Rows lengths{5, 3, 9, 3, 7};
  CHECK(plan_sorted(lengths, 2) == BatchPlan{{1, 3}, {0, 4}, {2}});
}

TEST_CASE("accumulation windows never cross an epoch") {
  const auto counts = [](int64_t batches, int64_t accumulation) {
    Rows out;
    int64_t next = 0;
    for (const Window& window : accumulation_windows(batches, accumulation)) {
      CHECK(window.first == next);
      next += window.count;
      out.push_back(window.count);
    }
    CHECK(next == batches);
    return out;
  };
  CHECK(counts(8, 4) == Rows{4, 4});
  CHECK(counts(9, 4) == Rows{4, 4, 1});
  CHECK(counts(3, 4) == Rows{3});
  CHECK(counts(3, 1) == Rows{1, 1, 1});
  CHECK(counts(0, 4) == Rows{});
  CHECK(counts(3, int64_t{1} << 62) == Rows{3});
  CHECK(error_of([] { (void)accumulation_windows(3, 0); })->kind() == ErrorKind::config);
}

TEST_CASE("collate pads to the longest row") {
  const Rows rows{2, 0};
  const Batch batch = collate(three_texts(), rows, {Padding::longest, 0, 99, DType::i64});
  CHECK(batch.rows == 2);
  CHECK(batch.tokens == 8);
  CHECK(batch.row_numbers == rows);
  CHECK(batch.input_ids.shape() == Shape{2, 5});
  CHECK(batch.input_ids.dtype() == DType::i64);
  CHECK(to_vector(batch.input_ids) == Numbers{2, 8, 9, 7, 3, 2, 7, 3, 99, 99});
  CHECK(batch.attention_mask.dtype() == DType::boolean);
  CHECK(batch.attention_mask.shape() == Shape{2, 5});
  CHECK(to_vector(batch.attention_mask) == Numbers{1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  CHECK(batch.token_type_ids.dtype() == DType::i64);
  CHECK(to_vector(batch.token_type_ids) == Numbers(10, 0.0));
  CHECK(batch.labels.dtype() == DType::i64);
  CHECK(batch.labels.shape() == Shape{2});
  CHECK(to_vector(batch.labels) == Numbers{1, 1});
}

TEST_CASE("collate pads to a fixed length, and refuses what does not fit") {
  const Rows rows{1};
  const Batch batch = collate(three_texts(), rows, {Padding::max_length, 4, 0, DType::f32});
  CHECK(to_vector(batch.input_ids) == Numbers{2, 3, 0, 0});
  CHECK(to_vector(batch.attention_mask) == Numbers{1, 1, 0, 0});
  CHECK(batch.labels.dtype() == DType::f32);
  CHECK(to_vector(batch.labels) == Numbers{0});
  const Rows too_long{1, 2}, none;
  CHECK(contains(error_text([&] {
                   (void)collate(three_texts(), too_long, {Padding::max_length, 4, 0, DType::i64});
                 }),
                 "E-BATCH-LENGTH: collate: a row has 5 tokens"));
  CHECK(contains(error_text([&] { (void)collate(three_texts(), none, {}); }), "E-BATCH-EMPTY"));
  CHECK(contains(error_text([&] { (void)collate(three_texts(), rows, {.label_dtype = DType::bf16}); }),
                 "E-DTYPE: collate: labels are i64 or f32, not bf16"));
}

TEST_CASE("packed rows stand end to end, and an empty one is refused") {
  const Rows rows{2, 1, 0};
  const Batch batch = collate(three_texts(), rows, {.padding = Padding::packed, .label_dtype = DType::f32});
  CHECK(to_vector(batch.input_ids) == Numbers{2, 8, 9, 7, 3, 2, 3, 2, 7, 3});
  CHECK(to_vector(batch.token_type_ids) == Numbers(10, 0.0));
  CHECK(to_vector(batch.offsets) == Numbers{0, 5, 7, 10});
  CHECK(to_vector(batch.labels) == Numbers{1, 0, 1});
  CHECK(!batch.attention_mask);
  CHECK(batch.longest == 5);
  CHECK(batch.tokens == 10);
  EncodedTexts texts = three_texts();
  texts.append({});
  const Rows with_empty{0, 3};
  CHECK(contains(error_text([&] { (void)collate(texts, with_empty, {.padding = Padding::packed}); }), "E-BATCH-EMPTY"));
}

TEST_CASE("texts without labels make batches without labels") {
  EncodedTexts texts;
  texts.append(std::vector<int32_t>{2, 3});
  const Rows rows{0};
  CHECK(!collate(texts, rows, {}).labels);
  CHECK(contains(error_text([&] { texts.set_labels({1, 2}); }), "E-BATCH-LABELS: set_labels: 2 labels for 1 rows"));
}

TEST_CASE("texts are encoded with special tokens, and progress can stop it") {
  const Tokenizer tokenizer(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "x"));
  std::vector<std::string> texts(3000, "a a");
  texts[1] = "";
  Rows seen;
  const EncodedTexts encoded = encode_texts(texts, tokenizer, [&](int64_t done) { seen.push_back(done); });
  CHECK(encoded.rows() == 3000);
  CHECK(encoded.length(0) == 4);
  CHECK(encoded.length(1) == 2);
  CHECK(encoded.tokens() == 2999 * 4 + 2);
  CHECK(std::vector<int32_t>(encoded.ids(1).begin(), encoded.ids(1).end()) == std::vector<int32_t>{2, 3});
  CHECK(seen == Rows{1024, 2048, 3000});
  CHECK_THROWS_AS((void)encode_texts(texts, tokenizer, [](int64_t) { throw 1; }), int);
}

TEST_CASE("offensive/train in batches of 16: steps and tokens of the reference run") {
  if (tests::no_shared()) return;
  const Tokenizer tokenizer(Vocab::load(tests::shared_path("data/bert/vocab.txt")), {true, false, 128});
  const Dataset data = read_tweet_eval(tests::shared_path("data/tweet_eval/offensive"), "train");
  const EncodedTexts texts = encode_texts(data.texts, tokenizer);
  CHECK(3 * texts.tokens() == 1192434);  // shared/data/README.md
  const Rows lengths = texts.lengths();
  int64_t padded = 0, batches = 0;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (const Rows& rows : plan_epoch(lengths, {}, epoch)) {
      padded += lengths[static_cast<size_t>(rows.back())] * static_cast<int64_t>(rows.size());
      ++batches;
    }
  }
  CHECK(batches == 2235);
  CHECK(std::abs(padded - 1236080) < 12000);  // another shuffle, the same scheme: within one per cent
}

}  // namespace mixtape::data

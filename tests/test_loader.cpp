// The loader: its batches are those of the plan whatever is prepared ahead, and so are its errors.
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/factory.h"
#include "core/kernels/parallel.h"
#include "data/loader.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_text;
using Rows = std::vector<int64_t>;

/// Texts of 3 to 40 tokens, no two alike, in an order that is neither sorted nor periodic.
EncodedTexts some_texts(int64_t count, int64_t times = 1) {
  EncodedTexts texts;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < times * (3 + (i * i * 7 + i * 13) % 38); ++t) ids.push_back(static_cast<int32_t>(i + t));
    texts.append(ids);
    labels.push_back(static_cast<int32_t>(i % 3));
  }
  texts.set_labels(std::move(labels));
  return texts;
}

std::vector<double> values(const Tensor& tensor) { return tensor ? to_vector(tensor) : std::vector<double>{}; }

bool same(const Batch& a, const Batch& b) {
  return a.row_numbers == b.row_numbers && a.rows == b.rows && a.longest == b.longest && a.tokens == b.tokens &&
         values(a.input_ids) == values(b.input_ids) && values(a.attention_mask) == values(b.attention_mask) &&
         values(a.token_type_ids) == values(b.token_type_ids) && values(a.labels) == values(b.labels) &&
         values(a.offsets) == values(b.offsets);
}

Batch collated(const Loader& loader, const Rows& rows) {
  return collate(loader.texts(), rows, loader.options().collate);
}

/// False when it has not happened within ten seconds.
template <class F>
bool soon(F&& happened) {
  for (int i = 0; i < 10'000 && !happened(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return happened();
}

std::set<std::string> threads() {
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(entry.path().filename());
  return ids;
}

std::vector<std::string> threads_beside(const std::set<std::string>& before) {
  const std::set<std::string> now = threads();
  std::vector<std::string> fresh;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(fresh));
  return fresh;
}

/// While it lives a new thread wants a stack larger than any address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_getattr_default_np(&huge);
    ::pthread_attr_setstacksize(&huge, size_t{1} << 60);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};
}  // namespace

TEST_CASE("a loader gives the batches of every epoch in order") {
  const Loader loader(some_texts(37), {{4, true, true, 7}, {}, 3});
  CHECK(loader.batches_per_epoch() == 10);
  std::vector<Rows> seen, expected;
  int64_t tokens = 0;
  for (const Batch& batch : loader) {
    seen.push_back(batch.row_numbers);
    tokens += batch.tokens;
    CHECK(same(batch, collated(loader, batch.row_numbers)));
  }
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (const Rows& rows : loader.plan(epoch)) expected.push_back(rows);
  }
  CHECK(seen == expected);
  CHECK(seen.size() == 30);
  CHECK(tokens == 3 * loader.texts().tokens());
  const Loader empty(EncodedTexts(), {});
  for (const Batch& batch : empty) FAIL("a batch of ", batch.rows, " rows from no text");
  CHECK(contains(error_text([] { (void)Loader(some_texts(3), {{0, true, true, 7}, {}, 1}); }), "E-BATCH-SIZE"));
}

TEST_CASE("loader: a prepared batch is the one that collate makes, for every plan and padding") {
  for (const Padding padding : {Padding::longest, Padding::max_length, Padding::packed}) {
    for (const DType labels : {DType::i64, DType::f32}) {
      for (const bool shuffle : {false, true}) {
        for (const bool bucketing : {false, true}) {
          const Loader loader(some_texts(45), {{4, shuffle, bucketing, 42}, {padding, 40, 99, labels}});
          for (uint32_t epoch = 0; epoch < 2; ++epoch) {
            const BatchPlan plan = loader.plan(epoch);
            for (const Window& window : accumulation_windows(std::ssize(plan), 5)) {  // 5, 5 and 2
              for (auto at = static_cast<size_t>(window.first); at < static_cast<size_t>(window.first + window.count);
                   ++at) {
                CAPTURE(at);
                if (at % 3 == 2) REQUIRE(soon([&] { return loader.next_is_ready(); }));
                CHECK(same(loader.batch(plan, at), collated(loader, plan[at])));
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("loader: asked at once, it gives whole batches all the same") {
  const Loader loader(some_texts(2000), {{4, true, true, 42}, {}});
  const BatchPlan plan = loader.plan(0);
  bool all_same = true;
  for (size_t at = 0; at < plan.size(); ++at) {
    const Batch batch = loader.batch(plan, at);
    all_same = all_same && same(batch, collated(loader, plan[at]));
  }
  CHECK(all_same);
  std::vector<Batch> batches;
  for (size_t at = 0; at < plan.size(); ++at) batches.push_back(loader.batch(plan, at));
  for (size_t at = 0; at < plan.size(); ++at) all_same = all_same && same(batches[at], collated(loader, plan[at]));
  CHECK(all_same);
}

TEST_CASE("loader: asked while the thread is at work, it gives whole batches") {
  const Loader loader(some_texts(400, 100), {{16, true, true, 42}, {}});
  const BatchPlan plan = loader.plan(0);
  for (size_t at = 0; at < plan.size(); ++at) {
    CHECK(same(loader.batch(plan, at), collated(loader, plan[at])));
    if (at > 0) (void)loader.batch(plan, at - 1);  // prepares this batch anew
    std::this_thread::sleep_for(std::chrono::microseconds(20 * at));
    CHECK(same(loader.batch(plan, at), collated(loader, plan[at])));
  }
}

TEST_CASE("loader: any order of asking, another epoch's plan, a restart in the middle") {
  const Loader loader(some_texts(37), {{4, true, true, 7}, {}});
  const BatchPlan first = loader.plan(0), second = loader.plan(1);
  const auto check = [&](const BatchPlan& plan, size_t at) {
    CAPTURE(at);
    CHECK(same(loader.batch(plan, at), collated(loader, plan[at])));
  };
  for (const size_t at : {5u, 6u, 2u, 2u, 3u, 9u, 0u, 9u, 8u, 1u, 2u, 3u}) {
    check(first, at);
    if (at % 2 == 0 && at + 1 < first.size()) REQUIRE(soon([&] { return loader.next_is_ready(); }));
    if (at % 3 == 0) check(second, at);
  }
  const Loader restarted(some_texts(37), {{4, true, true, 7}, {}});
  for (size_t at = 4; at < first.size(); ++at) CHECK(same(restarted.batch(first, at), loader.batch(first, at)));
  auto one = loader.begin(), other = loader.begin();
  for (; !(one == loader.end()); ++one, ++other) CHECK(same(*one, *other));
}

TEST_CASE("loader: the next batch is prepared unasked, after the last one nothing is") {
  const Loader loader(some_texts(37), {{4, true, true, 7}, {}});
  const BatchPlan plan = loader.plan(0);
  CHECK_FALSE(loader.next_is_ready());
  (void)loader.batch(plan, 7);
  REQUIRE(soon([&] { return loader.next_is_ready(); }));
  (void)loader.batch(plan, 8);
  (void)loader.batch(plan, 9);
  CHECK_FALSE(loader.next_is_ready());
}

TEST_CASE("loader: an error is thrown where its batch is asked for, in the words of collate, each time") {
  EncodedTexts texts;
  for (const size_t length : {2u, 3u, 2u, 9u, 2u, 0u}) texts.append(std::vector<int32_t>(length, 5));
  const Loader loader(std::move(texts), {{1, false, false, 0}, {Padding::max_length, 4, 0, DType::i64}});
  const BatchPlan plan = loader.plan(0);
  for (int round = 0; round < 2; ++round) {
    for (const size_t good : {0u, 1u, 2u}) CHECK(same(loader.batch(plan, good), collated(loader, plan[good])));
    const std::string too_long = error_text([&] { (void)loader.batch(plan, 3); });
    CHECK(contains(too_long, "E-BATCH-LENGTH: collate: a row has 9 tokens"));
    CHECK(too_long == error_text([&] { (void)collated(loader, plan[3]); }));
    CHECK(same(loader.batch(plan, 4), collated(loader, plan[4])));
    CHECK(contains(error_text([&] { (void)loader.batch(plan, 5); }), "E-BATCH-EMPTY"));
  }
}

TEST_CASE("loader: it may end at any time, with a batch begun, ready or never asked for") {
  for (int i = 0; i < 50; ++i) {
    const Loader loader(some_texts(8, 200), {{4, true, true, 7}, {}});
    if (i % 3 == 0) continue;
    const BatchPlan plan = loader.plan(0);
    (void)loader.batch(plan, 0);
    if (i % 3 == 1) REQUIRE(soon([&] { return loader.next_is_ready(); }));
  }
}

TEST_CASE("loader: one thread, which hears no signal and opens no team") {
  const int before = kernels::thread_count();
  kernels::set_thread_count(4);
  const std::set<std::string> others = threads();
  {
    const Loader loader(some_texts(256, 100), {{64, true, true, 7}, {}});  // 4000 tokens a row
    const BatchPlan plan = loader.plan(0);
    for (size_t at = 0; at < plan.size(); ++at) {
      (void)loader.batch(plan, at);
      if (at + 1 < plan.size()) REQUIRE(soon([&] { return loader.next_is_ready(); }));
    }
    const std::vector<std::string> own = threads_beside(others);
    REQUIRE(own.size() == 1);
    const std::string status = tests::slurp("/proc/self/task/" + own[0] + "/status");
    const size_t at = status.find("SigBlk:");
    REQUIRE(at != std::string::npos);
    const uint64_t blocked = std::stoull(status.substr(at + 7), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) CHECK((blocked >> (signal - 1) & 1) == 1);
  }
  REQUIRE(soon([&] { return threads_beside(others).empty(); }));
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK(::sigismember(&mask, SIGINT) == 0);  // the asking thread hears them as before
  kernels::set_thread_count(before);
}

TEST_CASE("loader: where no thread is to be had, batches are made when they are asked for") {
  const NoMoreThreads none;
  CHECK_THROWS_AS(std::thread([] {}).join(), std::system_error);
  const std::set<std::string> others = threads();
  const Loader loader(some_texts(37), {{4, true, true, 7}, {}, 2});
  CHECK(threads_beside(others).empty());
  int64_t count = 0;
  for (const Batch& batch : loader) {
    CHECK(same(batch, collated(loader, batch.row_numbers)));
    CHECK_FALSE(loader.next_is_ready());
    ++count;
  }
  CHECK(count == 20);
}

TEST_CASE("loader: several threads may ask one loader") {
  const Loader loader(some_texts(400), {{4, true, true, 7}, {}});
  std::vector<int> right(3);
  std::vector<std::thread> askers;
  for (size_t i = 0; i < right.size(); ++i) {
    askers.emplace_back([&loader, &mine = right[i], epoch = static_cast<uint32_t>(i)] {
      const BatchPlan plan = loader.plan(epoch);
      for (size_t at = 0; at < plan.size(); ++at) mine += same(loader.batch(plan, at), collated(loader, plan[at]));
    });
  }
  for (std::thread& asker : askers) asker.join();
  CHECK(right == std::vector<int>(3, 100));
}

}  // namespace mixtape::data

// What is refused before the start: runs that the machine cannot hold.
#include <doctest/doctest.h>

#include "tests/tiny_run.h"
#include "tools/trainer/preflight.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/train.h"

namespace mixtape::trainer {
using tests::contains;
using tests::error_of;
using tests::TinyRun;

TEST_CASE("preflight: parameters are counted exactly, but for the head and the pooler") {
  const TinyRun tiny;
  const config::Config config = tiny.config();
  Progress progress(Verbosity::quiet);
  const auto model = make_model(config, 13, {"plain", "rude"}, progress);
  CHECK(parameter_count(bert_config(config, 13)) == model->parameter_count() - 17);  // 16 weights and a bias
  CHECK(parameter_count(models::BertConfig{}) == 108'891'648);                       // BERT-base without pooler
}

TEST_CASE("preflight: memory") {
  const config::Config config;
  const models::BertConfig base;
  const double needed = memory_estimate(config, base, 9000, 128);
  CHECK(needed > 108e6 * 18);
  CHECK(needed < 8e9);
  CHECK(memory_estimate(config, base, 9000, 512) > needed);
  CHECK(memory_estimate(config, base, 4, 128) < needed);
  CHECK_NOTHROW(check_memory(needed, 16'000'000'000));
  CHECK_NOTHROW(check_memory(needed, 0));  // not known
  const auto error = error_of([&] { check_memory(needed, 1'000'000'000); });
  REQUIRE(error);
  CHECK(error->exit_code() == 12);
  CHECK(error->code() == "E-MEMORY");
  CHECK(contains(error->what(), "per_device_train_batch_size"));
}

TEST_CASE("bug_B8: disk space is forecast: (save_total_limit + 2) checkpoints and a tenth") {
  CHECK_NOTHROW(check_disk("d", 1000, 2, 0, 4400));
  CHECK_NOTHROW(check_disk("d", 1000, 2, 3000, 1400));
  CHECK_NOTHROW(check_disk("d", 1000, 2, 0, -1));  // not known
  const auto error = error_of([] { check_disk("d", 1000, 2, 0, 4399); });
  REQUIRE(error);
  CHECK(error->exit_code() == 5);
  CHECK(error->code() == "E-IO-NOSPACE");
  const config::Config config;
  CHECK(checkpoint_estimate(config, models::BertConfig{}) > 108'891'648LL * 12);
}

TEST_CASE("preflight: what a run leaves is what was forecast") {
  const TinyRun tiny;
  Progress progress(Verbosity::quiet);
  (void)train(tiny.config({"trainer.eval_strategy=no"}), tiny.path("run"), {}, progress);
  const int64_t real = bytes_below(tiny.path("run/checkpoints"));
  CHECK(checkpoint_estimate(tiny.config(), bert_config(tiny.config(), 13)) >= real);
  CHECK(bytes_below(tiny.path("nowhere")) == 0);
}

}  // namespace mixtape::trainer

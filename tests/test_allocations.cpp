// What a training step takes from the system: nothing, once every size has been seen.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/allocator.h"
#include "tests/recorder.h"

namespace mixtape::trainer {

TEST_CASE("allocations: none from the third training step on at a fixed shape, in every dtype") {
  const tests::TinyRun tiny(32);  // eight full batches
  for (const std::string dtype : {"off", "bf16", "fp16"}) {
    for (const std::string checkpointing : {"false", "true"}) {
      INFO(dtype << ", activation checkpointing " << checkpointing);
      tests::WatchedRun run(
          tiny, dtype + checkpointing,
          {message("amp.dtype=", dtype), "amp.init_scale=1024", "data.padding=max_length", "trainer.num_train_epochs=1",
           message("trainer.activation_checkpointing=", checkpointing)});
      std::vector<int64_t> seen;
      run.trainer.at_step = [&](int64_t) { seen.push_back(cpu_allocator().stats().system_allocations); };
      run.run();
      REQUIRE(seen.size() == 8);
      CHECK(std::vector<int64_t>(seen.begin() + 2, seen.end()) == std::vector<int64_t>(6, seen[1]));
    }
  }
}

}  // namespace mixtape::trainer

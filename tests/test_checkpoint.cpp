// Checkpoints: complete or not there, equal bytes for equal runs, and no damage goes unseen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/factory.h"
#include "tests/shared.h"
#include "tools/trainer/checkpoint.h"

namespace mixtape::trainer {
namespace {
namespace fs = std::filesystem;
using tests::contains;
using tests::error_of;
using tests::slurp;
using tests::TempFolder;

const std::vector<std::string> files = {"model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"};

NamedTensors parameters(double value) {
  return {{"a.weight", full({30, 20}, value)}, {"a.bias", full({5}, value / 2)}};
}

Metrics some_metrics(double loss) {
  Confusion counts(2);
  counts.add(0, 0, 7);
  counts.add(1, 0, 3);
  return {std::move(counts), loss};
}

RunState state_at(int64_t step, int64_t best_step = 0) {
  RunState state;
  state.step = state.updates = step;
  state.scaler.scale.scale = 0.1;
  state.culprit = "the output of \"linear\"";
  state.trajectory = {{"trainer.seed", "42"}, {"amp.overrides", "{\"gelu\":\"full\"}"}};
  if (best_step > 0) state.best = RunState::Best{best_step, "0123", some_metrics(1.0 / 3)};
  return state;
}

void save(const TempFolder& folder, int64_t step, int64_t best_step, int64_t keep = 2) {
  const double value = static_cast<double>(step);
  Checkpoints(folder.path()).save(state_at(step, best_step), parameters(value), parameters(-value), keep);
}

std::vector<std::string> names(const TempFolder& folder) {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder.path("checkpoints"))) all.push_back(entry.path().filename());
  std::sort(all.begin(), all.end());
  return all;
}

/// Flips a bit of a file, in place; a second time puts it back.
void flip(std::fstream& file, size_t bit) {
  const auto at = static_cast<std::streamoff>(bit / 8);
  char byte = 0;
  file.seekg(at).get(byte);
  file.seekp(at).put(static_cast<char>(byte ^ (1 << bit % 8))).flush();
}
}  // namespace

TEST_CASE("checkpoint: what is saved is what is loaded") {
  const TempFolder folder;
  save(folder, 12, 8);
  const auto found = Checkpoints(folder.path()).newest();
  REQUIRE(found.checkpoint);
  CHECK(found.faults.empty());
  CHECK(found.checkpoint->path == folder.path("checkpoints/step-00000012"));
  CHECK(found.checkpoint->manifest.step == 12);
  CHECK(found.checkpoint->manifest.best_step == 8);
  CHECK(slurp(folder.path("latest")) == "checkpoints/step-00000012\n");
  const RunState state = read_state(*found.checkpoint);
  CHECK(state.json() == state_at(12, 8).json());
  CHECK(state.scaler == state_at(12, 8).scaler);
  CHECK(state.best->metrics.loss == 1.0 / 3);
  CHECK(state.best->metrics.accuracy == 0.7);
  const NamedTensors target = parameters(0);
  load_weights(*found.checkpoint, target);
  CHECK(to_vector(target[0].tensor)[14] == 12);
  CHECK(to_vector(read_tensors(*found.checkpoint, "optimizer.safetensors")[0].tensor)[0] == -6);
}

TEST_CASE("checkpoint: equal states leave equal bytes, wherever they lie") {
  const TempFolder a, b;
  save(a, 7, 3);
  save(b, 7, 3);
  for (const std::string& file : files) {
    CHECK(slurp(a.path("checkpoints/step-00000007/" + file)) == slurp(b.path("checkpoints/step-00000007/" + file)));
  }
}

TEST_CASE("bug_B4: a checkpoint holds the f32 masters, to the last bit") {
  const TempFolder folder;
  const double value = 1 + 0x1p-15;  // 1 in half precision
  Checkpoints(folder.path()).save(state_at(1), {{"w", full({1}, value)}}, {}, 2);
  const NamedTensors target = {{"w", full({1}, 0)}};
  load_weights(*Checkpoints(folder.path()).newest().checkpoint, target);
  CHECK(to_vector(target[0].tensor)[0] == value);
}

TEST_CASE("bug_B10: the newest and the best stay, with a limit of one too") {
  const TempFolder folder;
  save(folder, 10, 10, 1);
  save(folder, 20, 20, 1);
  CHECK(names(folder) == std::vector<std::string>{"step-00000020"});
  save(folder, 30, 20, 1);
  save(folder, 40, 20, 1);
  CHECK(names(folder) == std::vector<std::string>{"step-00000020", "step-00000040"});
  save(folder, 50, 50, 2);  // the one of step 40 is kept, and what it calls the best with it
  CHECK(names(folder) == std::vector<std::string>{"step-00000020", "step-00000040", "step-00000050"});
  save(folder, 60, 50, 2);
  CHECK(names(folder) == std::vector<std::string>{"step-00000050", "step-00000060"});
}

TEST_CASE("bug_B7: a checkpoint of the same step is replaced whole") {
  const TempFolder folder;
  save(folder, 5, 0);
  save(folder, 5, 5);
  CHECK(names(folder) == std::vector<std::string>{"step-00000005"});
  CHECK(Checkpoints(folder.path()).newest().checkpoint->manifest.best_step == 5);
}

TEST_CASE("checkpoint: what a failed rotation left goes with the next save") {
  const TempFolder folder;
  save(folder, 5, 0);
  fs::create_directories(folder.path("checkpoints/step-00000004.tmp.123.old"));
  save(folder, 6, 0);
  CHECK(names(folder) == std::vector<std::string>{"step-00000005", "step-00000006"});
}

TEST_CASE("checkpoint: steps sort as numbers, up to a run of a thousand million (F30)") {
  const TempFolder folder;
  CHECK(Checkpoints::name_of(1'000'000'000) == "checkpoints/step-1000000000");
  for (const int64_t step : {int64_t{99'999'999}, int64_t{1'000'000'000}, int64_t{100'000'000}})
    save(folder, step, 0, 9);
  CHECK(Checkpoints(folder.path()).newest().checkpoint->manifest.step == 1'000'000'000);
}

TEST_CASE("checkpoint: a cut file is found at every byte (F13)") {
  int64_t tries = 0;
  for (const std::string& name : files) {
    const TempFolder folder;
    save(folder, 4, 4);
    const std::string dir = folder.path("checkpoints/step-00000004"), path = dir + "/" + name;
    for (uintmax_t size = fs::file_size(path); size-- > 0; ++tries) {
      fs::resize_file(path, size);
      const data::Parsed<Manifest> manifest = verify_directory(dir);
      const bool seen = !manifest.value && contains(manifest.error, path);
      if (!seen) FAIL(name, " cut to ", size, " bytes was not seen");
    }
    CHECK_FALSE(Checkpoints(folder.path()).newest().checkpoint);
  }
  CHECK(tries > 5096);
}

TEST_CASE("checkpoint: a flipped bit is found wherever it is (F14)") {
  const TempFolder folder;
  save(folder, 4, 4);
  const std::string dir = folder.path("checkpoints/step-00000004");
  size_t tries = 0;
  for (const std::string& name : files) {
    const std::string path = dir + "/" + name;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (size_t bit = tries % 4; bit < 8 * fs::file_size(path); bit += 4, ++tries) {
      flip(file, bit);
      const data::Parsed<Manifest> manifest = verify_directory(dir);
      const bool seen = !manifest.value && contains(manifest.error, path);
      if (!seen) FAIL(name, ": flipped bit ", bit, " was not seen");
      flip(file, bit);
    }
  }
  CHECK(tries > 10000);
  CHECK(verify_directory(dir).value);
}

TEST_CASE("checkpoint: what is missing or half-written is passed over, and cleaned up") {
  const TempFolder folder;
  CHECK_FALSE(Checkpoints(folder.path()).newest().checkpoint);
  save(folder, 3, 0);
  fs::create_directories(folder.path("checkpoints/step-00000009.tmp.123"));
  fs::create_directories(folder.path("checkpoints/step-00000008"));  // without a MANIFEST
  fs::create_directories(folder.path("checkpoints/notes"));
  const Checkpoints checkpoints(folder.path());
  const auto found = checkpoints.newest();
  CHECK(found.checkpoint->manifest.step == 3);
  CHECK(found.damaged == std::vector<int64_t>{8});
  CHECK(contains(found.faults.at(0), "step-00000008/MANIFEST"));
  checkpoints.clean(found.damaged);
  CHECK(names(folder) == std::vector<std::string>{"notes", "step-00000003", "step-00000008.damaged"});
  fs::rename(folder.path("checkpoints/step-00000003"), folder.path("checkpoints/step-00000004"));
  CHECK(contains(checkpoints.newest().faults.at(0), "is that of step 3"));
}

TEST_CASE("checkpoint: that of another model is refused by name") {
  const TempFolder folder;
  save(folder, 3, 0);
  const Checkpoint checkpoint = *Checkpoints(folder.path()).newest().checkpoint;
  const auto text = [&](const NamedTensors& tensors) {
    const auto error = error_of([&] { load_weights(checkpoint, tensors); });
    REQUIRE(error);
    CHECK(error->exit_code() == 4);
    return std::string(error->what());
  };
  CHECK(contains(text({{"a.weight", full({30, 20}, 0)}}), "2 tensors instead of 1"));
  CHECK(contains(text({{"a.weight", full({20, 30}, 0)}, {"a.bias", full({5}, 0)}}), "a.weight is f32[30, 20]"));
  CHECK(contains(text({{"b.weight", full({30, 20}, 0)}, {"a.bias", full({5}, 0)}}), "no tensor b.weight"));
}

TEST_CASE("manifest: numbers and names are not trusted") {
  const std::string good = Manifest{.step = 3, .best_step = 0, .config = "c", .files = {{"a", 5, "h"}}}.text();
  CHECK(parse_manifest(good).value);
  for (const std::string name : {"../a", "/etc/passwd", "..", ""}) {
    CHECK_FALSE(parse_manifest(Manifest{.files = {{name, 5, "h"}}}.text()).value);
  }
  CHECK_FALSE(parse_manifest("").value);
  CHECK_FALSE(parse_manifest(good + "\n").value);
  CHECK_FALSE(parse_manifest(Manifest{.step = -3, .files = {{"a", 5, "h"}}}.text()).value);
  CHECK_FALSE(parse_manifest(std::string(1 << 20, 'x')).value);
}

TEST_CASE("run state: numbers that are not finite survive, and a missing member is named") {
  RunState state = state_at(9, 4);
  state.best->metrics.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(parse_run_state(state.json(), "s").best->metrics.loss));
  state.best->metrics.loss = -std::numeric_limits<double>::infinity();
  CHECK(parse_run_state(state.json(), "s").best->metrics.loss == state.best->metrics.loss);
  for (const std::string text : {"", "[]", "{}", "{\"step\": -1}", "{\"step\": 1.5}", "nonsense"}) {
    const auto error = error_of([&] { (void)parse_run_state(text, "there/state.json"); });
    REQUIRE(error);
    CHECK(error->code() == "E-CHECKPOINT");
    CHECK(contains(error->what(), "there/state.json"));
  }
}

}  // namespace mixtape::trainer

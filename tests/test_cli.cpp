// train, evaluate, inspect and bench from outside: exit codes, files, JSON, determinism.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

std::string quoted(const std::string& text) { return "'" + text + "'"; }

ProgramResult train(const TinyRun& tiny, const std::string& dir, const std::vector<std::string>& sets = {},
                    const std::string& more = "") {
  return run_program("train " + quoted(tiny.config_path()) + " -s " + quoted(tiny.path(dir)) + set_options(sets) + " " +
                     more);
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

std::set<std::string> files_in(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename().string());
  return names;
}
}  // namespace

TEST_CASE("cli: train leaves a complete run directory") {
  const TinyRun tiny;
  const ProgramResult result = train(tiny, "run");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK_FALSE(contains(result.err, "\r"));
  CHECK_FALSE(contains(result.err, "\x1b"));
  CHECK(contains(result.err, "warm-up 2 of 12 steps"));
  CHECK(contains(result.err, "\nepoch 2/2 step 12/12 100% loss "));
  CHECK(files_in(tiny.path("run")) == std::set<std::string>{".lock", "best", "checkpoints", "config.json", "latest",
                                                            "log.jsonl", "metrics.json", "report.html", "run.json"});
  CHECK(files_in(tiny.path("run/best")) == std::set<std::string>{"config.json", "model.safetensors", "vocab.txt",
                                                                 "tokenizer_config.json", "special_tokens_map.json"});
  const json config = json::parse(slurp(tiny.path("run/config.json")));
  CHECK(config["task"]["data_dir"] == tiny.path("data"));
  CHECK(config["tokenizer"]["vocab"] == tiny.path("vocab.txt"));
  CHECK(config["trainer"]["seed"] == 42);
  CHECK(json::parse(slurp(tiny.path("run/best/config.json")))["id2label"] == json{{"0", "plain"}, {"1", "rude"}});
  const json about = json::parse(slurp(tiny.path("run/run.json")));
  CHECK(about["xxh3_128"]["vocabulary"].get<std::string>().size() == 32);
  CHECK(about["xxh3_128"]["start_weights"].get<std::string>().size() == 32);
  CHECK(about["xxh3_128"]["data"].size() == 7);
  CHECK(about["mixtape"].contains("version"));
  CHECK(contains(about["origins"]["trainer.num_train_epochs"].get<std::string>(), "config.json:6:"));
  CHECK_FALSE(about["origins"].contains("trainer.seed"));
}

TEST_CASE("cli: the events of log.jsonl hold what they must") {
  const TinyRun tiny;
  REQUIRE(train(tiny, "run", {"trainer.logging_steps=5"}).exit_code == 0);
  const std::vector<json> log = read_log(tiny.path("run/log.jsonl"));
  const std::vector<json> steps = events_of(log, "step");
  std::vector<int> numbers;
  for (const json& step : steps) numbers.push_back(step["step"].get<int>());
  CHECK(numbers == std::vector<int>{5, 10, 12});
  for (const char* key : {"step", "updates", "epoch", "loss", "grad_norm", "lr", "loss_scale", "outcome", "tokens",
                          "seconds", "tokens_per_s", "peak_bytes"}) {
    CHECK(steps[0].contains(key));
  }
  const std::vector<json> evaluations = events_of(log, "eval");
  REQUIRE(evaluations.size() == 3);  // two epochs on val, the best on test
  CHECK(evaluations[2]["split"] == "test");
  for (const char* key : {"split", "loss", "accuracy", "macro_f1", "per_class", "confusion"})
    CHECK(evaluations[0].contains(key));
  CHECK(events_of(log, "checkpoint").size() >= 1);
}

TEST_CASE("cli: evaluate gives the numbers of metrics.json again") {
  const TinyRun tiny;
  for (const std::string sets : {"amp.dtype=off", "amp.dtype=bf16", "amp.dtype=fp16"}) {
    CAPTURE(sets);
    REQUIRE(train(tiny, "run", {sets}, "--force -q").exit_code == 0);
    const json metrics = json::parse(slurp(tiny.path("run/metrics.json")));
    for (const std::string split : {"val", "test"}) {
      const ProgramResult result = run_program("evaluate " + quoted(tiny.path("run")) + " --split " + split);
      REQUIRE(result.exit_code == 0);
      json again = json::parse(result.out);
      again.erase("split");
      CHECK(again == metrics[split]);
    }
  }
  CHECK(json::parse(run_program("evaluate " + quoted(tiny.path("run"))).out)["split"] == "test");
}

TEST_CASE("cli: evaluate takes other data with the same classes only") {
  const TinyRun tiny, other(8, 17);
  REQUIRE(train(tiny, "run").exit_code == 0);
  const std::string command = "evaluate " + quoted(tiny.path("run")) + " --data-dir " + quoted(other.path("data"));
  CHECK(json::parse(run_program(command).out)["rows"] == 17);
  other.folder().write("data/mapping.txt", "0\trude\n1\tplain\n");  // bug B29
  const ProgramResult swapped = run_program(command);
  CHECK(swapped.exit_code == 3);
  CHECK(contains(swapped.err, "plain, rude"));
  CHECK(run_program("evaluate " + quoted(tiny.path("nowhere"))).exit_code == 4);
  CHECK(run_program("evaluate " + quoted(tiny.path("run")) + " --split train").exit_code == 2);
  CHECK(run_program("evaluate " + quoted(tiny.path("run")) + " --data-dir nowhere").exit_code == 3);
}

TEST_CASE("cli: two runs leave the same bytes (F24)") {
  const TinyRun tiny;
  REQUIRE(train(tiny, "a", {"amp.dtype=bf16"}).exit_code == 0);
  REQUIRE(train(tiny, "b", {"amp.dtype=bf16"}).exit_code == 0);
  for (const std::string& file : files_in(tiny.path("a/best")))
    CHECK(slurp(tiny.path("a/best/" + file)) == slurp(tiny.path("b/best/" + file)));
  CHECK(slurp(tiny.path("a/config.json")) == slurp(tiny.path("b/config.json")));
  const json first = json::parse(slurp(tiny.path("a/metrics.json"))),
             second = json::parse(slurp(tiny.path("b/metrics.json")));
  for (const char* key : {"val", "test", "best_step"}) CHECK(first[key] == second[key]);
}

TEST_CASE("cli: a run is repeated from its effective configuration") {
  const TinyRun tiny;
  REQUIRE(train(tiny, "a", {"trainer.warmup_steps=3"}).exit_code == 0);
  const ProgramResult again =
      run_program("train " + quoted(tiny.path("a/config.json")) + " -s " + quoted(tiny.path("b")));
  REQUIRE(again.exit_code == 0);
  CHECK(slurp(tiny.path("a/best/model.safetensors")) == slurp(tiny.path("b/best/model.safetensors")));
  CHECK(slurp(tiny.path("a/config.json")) == slurp(tiny.path("b/config.json")));
}

TEST_CASE("cli: a best/ is a start for the next run") {
  const TinyRun tiny;
  REQUIRE(train(tiny, "a", {"model.head=softmax", "model.pooling=pooler"}).exit_code == 0);
  const ProgramResult next = run_program("train " + quoted(tiny.config_path()) + " -s " + quoted(tiny.path("b")) +
                                         set_options({"model.pretrained=" + tiny.path("a/best")}));
  CAPTURE(next.err);
  REQUIRE(next.exit_code == 0);
  CHECK(contains(next.err, "and the head"));
  const json config = json::parse(slurp(tiny.path("b/config.json")));
  CHECK(config["model"]["pooling"] == "pooler");
  CHECK(config["model"]["head"] == "softmax");
  const auto before = json::parse(slurp(tiny.path("a/run.json"))), after = json::parse(slurp(tiny.path("b/run.json")));
  CHECK(before["xxh3_128"]["start_weights"] != after["xxh3_128"]["start_weights"]);
}

TEST_CASE("cli: exit codes of train, and nothing half-made") {
  const TinyRun tiny;
  const auto code = [&](const std::vector<std::string>& sets, const std::string& more = "") {
    const ProgramResult result = train(tiny, "run", sets, more);
    CAPTURE(result.err);
    CHECK(result.err.rfind("error ", 0) == 0);
    CHECK_FALSE(fs::exists(tiny.path("run")));
    return result.exit_code;
  };
  CHECK(code({"trainer.sede=1"}) == 2);
  CHECK(code({"trainer.warmup_steps=13"}) == 2);
  CHECK(code({"amp.dtype=bf16", "amp.overrides={\"liner\": \"full\"}"}) == 2);
  CHECK(code({"tokenizer.max_length=17", "model.config.max_position_embeddings=17", "tokenizer.max_length=18"}) == 2);
  CHECK(code({"task.data_dir=nowhere"}) == 3);
  CHECK(code({"tokenizer.vocab=nowhere"}) == 3);
  CHECK(code({"model.pretrained=nowhere"}) == 4);
  CHECK(code({}, "--dry-run --recover") == 2);
  CHECK(code({}, "--recover --force") == 2);
  CHECK(code({}, "--recover-with-changes --force") == 2);
  CHECK(code({}, "-q -v") == 2);
  CHECK(run_program("train " + quoted(tiny.config_path())).exit_code == 2);
  CHECK(run_program("train nowhere.json -s " + quoted(tiny.path("run"))).exit_code == 2);
  CHECK(run_program("train " + quoted(tiny.config_path()) + " -s " + quoted(tiny.path("vocab.txt"))).exit_code == 5);
}

TEST_CASE("cli: a directory that is not empty is left alone, or renamed by --force") {
  const TinyRun tiny;
  REQUIRE(train(tiny, "run").exit_code == 0);
  const std::string before = slurp(tiny.path("run/log.jsonl"));
  const ProgramResult refused = train(tiny, "run");
  CHECK(refused.exit_code == 5);
  CHECK(contains(refused.err, "--force"));
  CHECK(contains(refused.err, "run.bak-1"));
  CHECK(slurp(tiny.path("run/log.jsonl")) == before);
  CHECK(train(tiny, "run", {"task.data_dir=nowhere"}, "--force").exit_code == 3);
  CHECK(slurp(tiny.path("run/log.jsonl")) == before);  // a run that cannot start moves nothing
  const ProgramResult forced = train(tiny, "run", {"trainer.seed=5"}, "--force");
  CHECK(forced.exit_code == 0);
  CHECK(contains(forced.err, "is now in"));
  CHECK(slurp(tiny.path("run.bak-1/log.jsonl")) == before);
  CHECK(json::parse(slurp(tiny.path("run/config.json")))["trainer"]["seed"] == 5);
}

TEST_CASE("cli: a directory that an ordinary user may not write (F10)") {
  if (::geteuid() != 0 || std::system("setpriv --version >/dev/null 2>&1") != 0) return;
  const TinyRun tiny;
  fs::permissions(tiny.folder().path(), fs::perms::all & ~fs::perms::group_write & ~fs::perms::others_write);
  fs::create_directory(tiny.path("closed"));
  const std::string user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
  for (const std::string dir : {"closed", "closed/new", "run/deep"}) {
    const ProgramResult result =
        run_program("train " + quoted(tiny.config_path()) + " -s " + quoted(tiny.path(dir)), "", user);
    CAPTURE(result.err);
    if (result.exit_code == 126 || result.exit_code == 127) return;  // that user cannot even reach the program
    CHECK(result.exit_code == 5);
    CHECK(contains(result.err, tiny.path(dir)));
  }
  CHECK(files_in(tiny.path("closed")).empty());
  CHECK_FALSE(fs::exists(tiny.path("run")));
}

TEST_CASE("cli: -q is silent, -v says more") {
  const TinyRun tiny;
  CHECK(train(tiny, "a", {}, "-q").err.empty());
  const std::string normal = train(tiny, "b").err, verbose = train(tiny, "c", {}, "-v").err;
  CHECK(verbose.size() > normal.size());
  CHECK(contains(verbose, "24 training"));
}

TEST_CASE("cli: fp16 says that it does not speed up, and start-up skips are one line") {
  const TinyRun tiny;
  const ProgramResult result =
      train(tiny, "run", {"amp.dtype=fp16", "amp.init_scale=16777216", "trainer.num_train_epochs=4"});
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.err, "does not speed up"));
  CHECK(contains(result.err, "loss scale 16777216 -> "));
  CHECK_FALSE(contains(result.err, "overflow at loss scale"));
  const std::vector<json> log = read_log(tiny.path("run/log.jsonl"));
  CHECK(events_of(log, "overflow").size() ==
        json::parse(slurp(tiny.path("run/metrics.json")))["train"]["skipped"].get<size_t>());
}

TEST_CASE("cli: diverging is exit 20") {
  const TinyRun tiny;
  const ProgramResult result = train(tiny, "run",
                                     {"optimizer.learning_rate=1e38", "amp.max_consecutive_skips=4",
                                      "trainer.num_train_epochs=9", "trainer.warmup_steps=0"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 20);
  CHECK(contains(result.err, "error E-DIVERGED"));
  (void)read_log(tiny.path("run/log.jsonl"));
}

TEST_CASE("cli: inspect ledger lists the step's ops with their dtypes") {
  const TinyRun tiny;
  const std::string command = "inspect ledger " + quoted(tiny.config_path());
  const json off = json::parse(run_program(command + " --json").out);
  const json low = json::parse(run_program(command + " --json --set amp.dtype=bf16").out);
  const auto linear_dtype = [](const json& ledger) {
    for (const json& row : ledger["ops"]) {
      if (row["op"] == "linear") return row["compute"].get<std::string>();
    }
    return std::string();
  };
  CHECK(linear_dtype(off) == "f32");
  CHECK(linear_dtype(low) == "bf16");
  CHECK(low["totals"]["casts"] > 0);
  CHECK(contains(run_program(command).out, "linear"));
  CHECK(run_program("inspect memory x").exit_code == 2);
}

const std::set<std::string> step_keys = {"mode",
                                         "amp",
                                         "batch",
                                         "seq",
                                         "median_s",
                                         "min_s",
                                         "tokens_per_s",
                                         "gflops_per_s",
                                         "peak_bytes",
                                         "saved_bytes",
                                         "peak_rss_bytes",
                                         "threads",
                                         "isa",
                                         "parameters",
                                         "dropout",
                                         "clip",
                                         "loss",
                                         "weights_changed",
                                         "losses_xxh3",
                                         "weights_xxh3",
                                         "system_allocations",
                                         "allocations_from_step_3",
                                         "composed",
                                         "fused_rows",
                                         "classes",
                                         "floor",
                                         "observer_checks",
                                         "observer_check_ns",
                                         "observer_share"};

TEST_CASE("cli: bench step prints the keys that others read") {
  const TinyRun tiny;
  const std::string command = "bench step --config " + quoted(tiny.config_path()) + " --batch 2 --seq 8 --steps 2 ";
  const ProgramResult result = run_program(command + "--json");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);
  const json line = json::parse(result.out);
  CHECK(keys_of(line) == step_keys);
  CHECK(line["weights_changed"] == true);
  CHECK(line["batch"] == 2);
  CHECK(line["dropout"] == 0.1);
  CHECK(line["saved_bytes"] > 0);
  const std::string lengths = tiny.folder().write("lengths", "3\n8\n5\n5\n2\n100\n1\n8\n");
  const json ragged = json::parse(run_program(command + "--warmup 1 --json --lengths " + quoted(lengths)).out);
  // The measured batches hold 5 + 5 and 2 + 8 tokens.
  CHECK(ragged["tokens_per_s"].get<double>() < 20 / (2 * ragged["min_s"].get<double>()) * 1.0001);
  CHECK(run_program(command + "--lengths " + quoted(tiny.folder().write("bad", "3\nx\n"))).exit_code == 3);
  CHECK(run_program(command + "--lengths " + quoted(tiny.folder().write("few", "3\n"))).exit_code == 2);
  CHECK(contains(run_program(command).out, "matrix products"));
}

TEST_CASE("cli: bench tokenize") {
  const TinyRun tiny;
  const std::string command =
      "bench tokenize --vocab " + quoted(tiny.path("vocab.txt")) + " " + quoted(tiny.path("data/train_text.txt"));
  const json line = json::parse(run_program(command + " --json").out);
  CHECK(line["texts"] == 24);
  CHECK(line["texts_per_s"] > 1000);
  CHECK(run_program("bench tokenize").exit_code == 2);
}

}  // namespace mixtape::tests

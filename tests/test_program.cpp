// The program from outside: exit codes, what goes to stdout and what to stderr, and the verbs that need no model.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/op.h"
#include "tests/shared.h"
#include "tools/config/show.h"

namespace {

using mixtape::tests::contains;
using mixtape::tests::no_shared;
using mixtape::tests::shared_path;
using mixtape::tests::slurp;
using mixtape::tests::TempFolder;

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

/// Runs the program through the shell; `arguments` are shell words.
Outcome run(const std::string& arguments, const std::string& input = "") {
  const TempFolder folder;
  const std::string in = folder.write("in", input);
  const std::string command = "'" MIXTAPE_PROGRAM "' " + arguments + " <'" + in + "' >'" + folder.path("out") +
                              "' 2>'" + folder.path("err") + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder.path("out")), slurp(folder.path("err"))};
}

void check_usage_error(const std::string& arguments, const std::string& word) {
  CAPTURE(arguments);
  const Outcome outcome = run(arguments);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.rfind("error E-", 0) == 0);
  CHECK(contains(outcome.err, word));
}

}  // namespace

TEST_CASE("program: usage errors are exit 2 and say what was meant") {
  check_usage_error("", "mixtape --help");
  check_usage_error("tokenise", "did you mean \"tokenize\"?");
  check_usage_error("config shwo", "did you mean \"show\"?");
  check_usage_error("config", "a verb must follow: show");
  check_usage_error("config show x --sett a=1", "did you mean \"--set\"?");
  check_usage_error("tokenize", "--vocab");
  check_usage_error("tokenize --vocab v --max-length 0", "--max-length");
  check_usage_error("ops --json --markdown", "--markdown");
  check_usage_error("'\xFF'", "no such verb");
}

TEST_CASE("program: its help lists the verbs") {
  const std::string help = run("--help").out;
  for (const std::string verb : {"train", "inspect", "teach", "tokenize", "config", "data", "ops", "doctor", "report"})
    CHECK(contains(help, "\n  " + verb + " "));
}

TEST_CASE("program: help and version go to stdout") {
  const Outcome version = run("--version");
  CHECK(version.exit_code == 0);
  CHECK(version.err.empty());
  for (const std::string word : {"mixtape ", "compiler", "instructions", "matrix products"})
    CHECK(contains(version.out, word));
  const Outcome help = run("config show --help");
  CHECK(help.exit_code == 0);
  CHECK(contains(help.out, "--set"));
}

TEST_CASE("program: config show") {
  const TempFolder folder;
  const std::string good = folder.write(
      "a.json", "{\"task\": {\"data_dir\": \"d\"}, \"tokenizer\": {\"vocab\": \"v\"},\n\"amp\": {\"init_scale\": 2}}");
  const Outcome text = run("config show '" + good + "' --set trainer.seed=7");
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "trainer.seed = 7 "));
  CHECK(contains(text.out, "--set\n"));
  CHECK(contains(text.out, "amp.init_scale = 2 "));
  CHECK(contains(text.out, good + ":2:23\n"));
  CHECK(contains(text.err, "warning W-CONFIG-NO-EFFECT  " + good + ":2:23  amp.init_scale = 2"));
  const nlohmann::json json = nlohmann::json::parse(run("config show '" + good + "' --json").out);
  CHECK(json["config"]["trainer"]["seed"] == 42);
  CHECK(json["origins"]["amp.init_scale"] == good + ":2:23");
  CHECK(json["origins"]["amp.dtype"] == "default");
  const Outcome bad = run("config show '" + good + "' --set trainer.sede=7 --set trainer.metric=f1");
  CHECK(bad.exit_code == 2);
  CHECK(bad.out.empty());
  CHECK(contains(bad.err, "2 errors, nothing was started.\n"));
  CHECK(run("config show '" + folder.path("none.json") + "'").exit_code == 2);
  CHECK(run("config show --markdown").out == mixtape::config::reference_page());
  CHECK(contains(run("config show").out, "required"));
}

TEST_CASE("program: ops lists the registry") {
  const nlohmann::json rows = nlohmann::json::parse(run("ops --json").out);
  REQUIRE(rows.size() == mixtape::registry().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const mixtape::OpSchema& op = *mixtape::registry()[i];
    CHECK(rows[i]["name"] == std::string(op.info->name));
    CHECK(rows[i]["differentiable"] == (op.backward != nullptr));
    CHECK(rows[i]["doc"].get<std::string>().size() > 5);
    for (const char* key : {"precision", "inputs", "saves", "dtypes"}) CHECK(rows[i].contains(key));
    CHECK(rows[i]["devices"] == nlohmann::json{"cpu", "cuda"});  // that it is so: tests/simt/op_table.cpp
  }
  const std::string markdown = run("ops --markdown").out, text = run("ops").out;
  for (const auto* op : mixtape::registry()) {
    CHECK(contains(markdown, "| `" + std::string(op->info->name) + "` |"));
    CHECK(contains(text, std::string(op->info->doc)));
  }
}

TEST_CASE("program: ops/TABLE.md is what the registry says") {
  const bool fresh = slurp(MIXTAPE_SOURCE_DIR "/ops/TABLE.md") == run("ops --markdown").out;
  CHECK_MESSAGE(fresh, "stale; make it anew: mixtape ops --markdown > ops/TABLE.md");
}

TEST_CASE("program: tokenize writes a line for a line") {
  const TempFolder folder;
  const std::string vocab =
      "--vocab '" + folder.write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nkind\nsoup\n##s\n!\n") + "'";
  CHECK(run("tokenize " + vocab, "kind soups!\n\nother\r\nkind").out == "2 4 5 6 7 3\n2 3\n2 1 3\n2 4 3\n");
  CHECK(run("tokenize " + vocab + " -", "soup\n").out == "2 5 3\n");
  CHECK(run("tokenize " + vocab, "").out.empty());
  CHECK(run("tokenize " + vocab + " --no-special-tokens", "soup\n\nsoup").out == "5\n\n5\n");
  CHECK(run("tokenize " + vocab + " --pieces", "Soups [SEP]\n").out == "[CLS] soup ##s [SEP] [SEP]\n");
  CHECK(run("tokenize " + vocab + " --no-match-special-tokens", "[SEP]\n").out == "2 1 1 1 3\n");
  CHECK(run("tokenize " + vocab + " --cased", "Soup soup\n").out == "2 1 5 3\n");
  CHECK(run("tokenize " + vocab + " --max-length 3", "kind soups!\n").out == "2 4 3\n");
  CHECK(run("tokenize --vocab '" + folder.path("none") + "'").exit_code == 3);
  CHECK(run("tokenize " + vocab + " '" + folder.path("none") + "'").exit_code == 3);
  const std::string file = folder.write("long.txt", "soup\n" + std::string(1'000'001, 'x') + "\nsoup\n");
  const Outcome too_long = run("tokenize " + vocab + " '" + file + "'");
  CHECK(too_long.exit_code == 3);
  CHECK(contains(too_long.err, "long.txt:2:"));
  CHECK(run("tokenize " + vocab, std::string(1'000'000, 'x') + "\n").out == "2 1 3\n");
}

TEST_CASE("program: tokenize gives the golden ids of all tweets") {
  if (no_shared()) return;
  const std::string vocab = "tokenize --vocab '" + shared_path("data/bert/vocab.txt") + "' ";
  for (const std::string task : {"offensive", "irony"}) {
    for (const std::string split : {"train", "val", "test"}) {
      CAPTURE(task + "/" + split);
      const std::string texts = "'" + shared_path("data/tweet_eval/" + task + "/" + split + "_text.txt") + "'";
      const std::string golden = shared_path("data/golden/" + task + "_" + split);
      const bool plain = run(vocab + "--no-special-tokens " + texts).out == slurp(golden + ".ids.txt");
      const bool cut = run(vocab + "--max-length 128 " + texts).out == slurp(golden + ".ids128.txt");
      CHECK(plain);
      CHECK(cut);
    }
  }
}

TEST_CASE("program: tokenize answers before the input ends") {
  const TempFolder folder;
  const std::string vocab = folder.write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nkind\n");
  // The second line is only sent once the answer to the first has come.
  const std::string script = "mkfifo '" + folder.path("in") + "' '" + folder.path("out") +
                             "'; '" MIXTAPE_PROGRAM "' tokenize --vocab '" + vocab + "' <'" + folder.path("in") +
                             "' >'" + folder.path("out") + "' & exec 3>'" + folder.path("in") + "' 4<'" +
                             folder.path("out") +
                             "'; echo kind >&3; read -r a <&4; echo other >&3; read -r b <&4; exec 3>&-; wait; "
                             "printf '%s|%s' \"$a\" \"$b\" >'" +
                             folder.path("result") + "'";
  REQUIRE(std::system(("timeout 20 sh -c \"$(cat <<'END'\n" + script + "\nEND\n)\"").c_str()) == 0);
  CHECK(slurp(folder.path("result")) == "2 4 3|2 1 3");
}

TEST_CASE("program: a full disk under stdout is an I/O error, not a short answer") {
  if (!std::filesystem::exists("/dev/full")) return;
  const int status = std::system("'" MIXTAPE_PROGRAM "' config show >/dev/full 2>/dev/null");
  CHECK(WEXITSTATUS(status) == 5);
}

TEST_CASE("program: it lives where its directory is gone") {
  const TempFolder folder;
  const std::string file =
      folder.write("a.json", "{\"task\": {\"data_dir\": \"d\"}, \"tokenizer\": {\"vocab\": \"v\"}}");
  const std::string gone =
      "mkdir '" + folder.path("gone") + "'; cd '" + folder.path("gone") + "'; rmdir '" + folder.path("gone") + "'; '";
  const int status =
      std::system((gone + MIXTAPE_PROGRAM "' config show '" + file + "' >'" + folder.path("out") + "'").c_str());
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(contains(slurp(folder.path("out")), "task.data_dir = \"" + folder.path("d") + "\""));
  CHECK(WEXITSTATUS(std::system((gone + MIXTAPE_PROGRAM "' config show a.json 2>/dev/null").c_str())) == 2);
}

TEST_CASE("program: doctor knows the machine") {
  const Outcome outcome = run("doctor");
  CHECK(outcome.exit_code == 0);
  for (const std::string word :
       {"program", "processor", "instructions", "matrix products", "threads", "memory", "disk", "cuda"}) {
    CHECK(contains(outcome.out, "\n" + word + " ") != (word == "program"));
  }
}

// The program under odd surroundings (docs: faults.md F21): locale, time zone, umask, directory, paths and arguments
// change neither a bit of the weights nor a character of the files.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {

/// What a run leaves that no clock may change.
struct Left {
  std::set<std::string> files;
  std::string weights, config, losses, scores;
  bool operator==(const Left&) const = default;
};

Left what_is_left(const std::string& dir) {
  Left left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    left.files.insert(std::filesystem::relative(entry.path(), dir).string());
  left.weights = slurp(dir + "/best/model.safetensors") + slurp(dir + "/best/config.json");
  left.config = slurp(dir + "/config.json");
  for (const nlohmann::json& event : read_log(dir + "/log.jsonl")) {
    if (event.at("event") == "step" || event.at("event") == "eval") left.losses += event.at("loss").dump() + "\n";
  }
  left.scores = nlohmann::json::parse(slurp(dir + "/metrics.json")).at("test").dump();
  return left;
}

/// Trains into `tiny`'s "run" with words before the program's name, in the shell.
Left train(const TinyRun& tiny, const std::string& before, const std::string& config = "") {
  const std::string dir = tiny.path("run");
  std::filesystem::remove_all(dir);
  const std::string file = config.empty() ? tiny.config_path() : config;
  const ProgramResult result = run_program(
      "train '" + file + "' -q -s '" + dir + "' --set trainer.max_steps=3 --set amp.dtype=bf16", "", before);
  CAPTURE(before);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  Left left = what_is_left(dir);
  left.scores += run_program("predict '" + dir + "' --format tsv", "you are rude !\n", before).out;
  return left;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777u : 0;
}

/// Copies the data and the configuration into a folder of the given name; returns the configuration's path.
std::string moved_to(const TinyRun& tiny, const std::string& name) {
  const std::string dir = tiny.path(name);
  std::filesystem::create_directory(dir);
  std::filesystem::copy(tiny.path("data"), dir + "/data");
  for (const std::string file : {"vocab.txt", "config.json"}) std::filesystem::copy(tiny.path(file), dir + "/" + file);
  return dir + "/config.json";
}
}  // namespace

TEST_CASE("environment: F21, locale, time zone, umask and variables change nothing") {
  const TinyRun tiny;
  const Left plain = train(tiny, "");
  CHECK(plain.losses.find(',') == std::string::npos);
  // A real German locale, where one can be made; else the name of one that is not installed.
  const std::string made = "localedef -i de_DE -f UTF-8 '" + tiny.path("de_DE.UTF-8") + "' >/dev/null 2>&1";
  const std::string german = std::system(made.c_str()) == 0 ? "LOCPATH='" + tiny.folder().path() + "' " : "";
  const std::string locale = german.empty() ? "no German locale could be made" : "with a German locale";
  MESSAGE(locale);
  for (const std::string& before :
       std::vector<std::string>{german + "LC_ALL=de_DE.UTF-8", "LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8", "LC_ALL=C",
                                "LC_NUMERIC=de_DE.UTF-8 LANG=xx", "TZ=Asia/Kathmandu", "TZ=Nowhere/Never", "umask 077;",
                                "umask 000;", "env -i", "TERM=xterm COLUMNS=1"}) {
    CAPTURE(before);
    const Left left = train(tiny, before);
    CHECK((left == plain));
  }
}

TEST_CASE("environment: F21, no source asks for a locale, wherever one is installed") {  // B38
  int files = 0;
  for (const std::string folder : {"core", "autograd", "ops", "nn", "optim", "amp", "data", "models", "tools"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(MIXTAPE_SOURCE_DIR "/" + folder)) {
      const std::string suffix = entry.path().extension().string();
      if (suffix != ".cpp" && suffix != ".h") continue;
      ++files;
      const std::string source = slurp(entry.path().string());
      CAPTURE(entry.path().string());
      for (const char* name : {"setlocale", "std::locale", "imbue", "strtod(", "atof(", "std::stod("})
        CHECK_MESSAGE(!contains(source, name), name);
    }
  }
  CHECK(files > 200);
}

TEST_CASE("environment: F21, the umask decides who may read, and nothing else does") {
  const TinyRun tiny;
  (void)train(tiny, "umask 077;");
  CHECK(mode_of(tiny.path("run")) == 0700);
  CHECK(mode_of(tiny.path("run/log.jsonl")) == 0600);
  CHECK(mode_of(tiny.path("run/best/model.safetensors")) == 0600);
  (void)train(tiny, "umask 022;");
  CHECK(mode_of(tiny.path("run/best/model.safetensors")) == 0644);
}

TEST_CASE("environment: F21, a directory that is gone, and paths that are not UTF-8") {
  const TinyRun tiny;
  const Left plain = train(tiny, "");
  const std::string gone = tiny.path("gone");
  const Left without = train(tiny, "mkdir '" + gone + "'; cd '" + gone + "'; rmdir '" + gone + "';");
  CHECK((without == plain));
  for (const std::string name : {"caf\xE9 \xFF", "two words", "line\nbreak", "-s", "\u00e4\U0001F600"}) {
    CAPTURE(name);
    Left left = train(tiny, "", moved_to(tiny, name));
    CHECK(left.config != plain.config);  // the paths in it
    left.config = plain.config;
    CHECK((left == plain));
  }
}

TEST_CASE("environment: F21, arguments that nobody means") {
  const TinyRun tiny;
  const std::string config = "'" + tiny.config_path() + "'";
  const std::vector<std::string> abuses = {"train",
                                           "train ''",
                                           "train -s ''",
                                           "train " + config,
                                           "train " + config + " " + config + " -s x",
                                           "train " + config + " -s x --set",
                                           "train " + config + " -s x --set ''",
                                           "train " + config + " -s x --set =",
                                           "train " + config + " -s x --nope",
                                           "train " + config + " -s x -q -v",
                                           "'\xFF\xFE'",
                                           "''",
                                           "train $(head -c 100000 /dev/zero | tr '\\0' a) -s x"};
  for (const std::string& arguments : abuses) {
    CAPTURE(arguments);
    const ProgramResult result = run_program(arguments);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err, "error E-"));
  }
  CHECK_FALSE(std::filesystem::exists("x"));
}

}  // namespace mixtape::tests

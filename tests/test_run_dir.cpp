// How a run directory comes into being: what is refused, what is moved aside, and that nothing half-made stays.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/shared.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/run_dir.h"

namespace mixtape::trainer {
namespace {
namespace fs = std::filesystem;
using tests::contains;
using tests::error_of;
using tests::slurp;
using tests::TempFolder;

void check_refused(const std::string& path, bool force, const std::string& words) {
  for (const bool creating : {false, true}) {
    const auto error = error_of([&] {
      if (creating)
        (void)RunDir::create(path, force);
      else
        RunDir::check(path, force);
    });
    CAPTURE(creating);
    CAPTURE(path);
    REQUIRE(error);
    const std::string text = error->what();
    CAPTURE(text);
    CHECK(error->exit_code() == 5);
    CHECK(error->code() == "E-IO-DIR");
    CHECK(text.starts_with(path));
    CHECK(contains(text, words));
  }
}

size_t entries(const std::string& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}
}  // namespace

TEST_CASE("a directory is made with its parents, or taken when it is empty") {
  const TempFolder folder;
  RunDir::check(folder.path("a/b/c"), false);
  CHECK_FALSE(fs::exists(folder.path("a")));  // checking makes nothing
  CHECK(RunDir::create(folder.path("a/b/c/"), false).path() == folder.path("a/b/c"));
  CHECK(fs::is_directory(folder.path("a/b/c")));
  CHECK(RunDir::create(folder.path("a/b/c"), false).moved_to().empty());
}

TEST_CASE("a directory that is not empty names both ways out, and --force moves it aside") {
  const TempFolder folder;
  fs::create_directory(folder.path("run"));
  folder.write("run/precious", "1");
  check_refused(folder.path("run"), false, folder.path("run.bak-1"));
  check_refused(folder.path("run"), false, "--recover");
  check_refused(folder.path("run"), false, "--force");
  CHECK(RunDir::create(folder.path("run"), true).moved_to() == folder.path("run.bak-1"));
  CHECK(slurp(folder.path("run.bak-1/precious")) == "1");
  CHECK(entries(folder.path("run")) == 1);  // the lock
  folder.write("run/precious", "2");
  CHECK(RunDir::create(folder.path("run/"), true).moved_to() == folder.path("run.bak-2"));
  CHECK(slurp(folder.path("run.bak-1/precious")) == "1");
  CHECK(slurp(folder.path("run.bak-2/precious")) == "2");
  CHECK(RunDir::create(folder.path("run"), true).moved_to().empty());  // nothing to move
}

TEST_CASE("what cannot be a directory is refused and nothing stays") {
  const TempFolder folder;
  folder.write("file", "");
  check_refused(folder.path("file"), false, "is no directory");
  check_refused(folder.path("file"), true, "is no directory");
  check_refused(folder.path("file/run"), false, "is no directory");
  check_refused(folder.path("file/a/b/run"), true, "is no directory");
  CHECK(error_of([] { RunDir::check("", false); })->exit_code() == 2);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a directory that may not be written is refused") {
  if (::geteuid() == 0) {
    MESSAGE("skipped: root may write everywhere");
    return;
  }
  const TempFolder folder;
  fs::create_directories(folder.path("closed/run"));
  ::chmod(folder.path("closed/run").c_str(), 0555);
  check_refused(folder.path("closed/run"), false, "nothing can be written there");
  check_refused(folder.path("closed/run/new/one"), false, "cannot be made in");
  ::chmod(folder.path("closed/run").c_str(), 0755);
}

TEST_CASE("files and directories appear complete or not at all") {
  const TempFolder folder;
  const RunDir dir = RunDir::create(folder.path("run"), false);
  dir.write("config.json", "{}\n");
  CHECK(slurp(dir.path("config.json")) == "{}\n");
  const auto fill_with = [](const std::string& text) {
    return [text](const std::string& path) { std::ofstream(path + "/" + text) << text; };
  };
  dir.replace("best", fill_with("one"));
  dir.replace("best", fill_with("two"));
  CHECK(slurp(dir.best() + "/two") == "two");
  CHECK(entries(dir.best()) == 1);  // the first is gone altogether
  CHECK_THROWS(dir.replace("best", [](const std::string& path) {
    std::ofstream(path + "/three") << 3;
    throw std::runtime_error("interrupted");
  }));
  CHECK(slurp(dir.best() + "/two") == "two");
  CHECK(entries(dir.path()) == 3);  // config.json, best and the lock: no temporaries
}

TEST_CASE("a directory in use is refused by everyone, and names who has it") {
  const TempFolder folder;
  const auto refused = [&](auto&& f) {
    const auto error = error_of(f);
    REQUIRE(error);
    CHECK(error->code() == "E-IO-LOCKED");
    CHECK(error->exit_code() == 5);
    CHECK(contains(error->what(), message("process ", ::getpid(), " on ")));
  };
  {
    const RunDir dir = RunDir::create(folder.path("run"), false);
    const RunDir copy = dir;
    dir.write("config.json", "{}");
    refused([&] { (void)RunDir::create(folder.path("run"), false); });
    refused([&] { (void)RunDir::create(folder.path("run"), true); });
    refused([&] { (void)RunDir::recover(folder.path("run")); });
    refused([&] { RunDir::check(folder.path("run"), true); });
  }
  CHECK(RunDir::recover(folder.path("run")));
  CHECK(RunDir::create(folder.path("run"), true).moved_to() == folder.path("run.bak-1"));
}

TEST_CASE("recovering takes a run, nothing, or refuses what is no run") {
  const TempFolder folder;
  CHECK_FALSE(RunDir::recover(folder.path("none")));
  CHECK_FALSE(fs::exists(folder.path("none")));
  fs::create_directory(folder.path("empty"));
  CHECK_FALSE(RunDir::recover(folder.path("empty")));
  fs::create_directories(folder.path("run/best.tmp.1"));
  folder.write("run/config.json", "{}");
  folder.write("run/latest.tmp.77", "half");
  CHECK(RunDir::recover(folder.path("run"))->path() == folder.path("run"));
  CHECK(entries(folder.path("run")) == 2);  // config.json and the lock
  folder.write("run/notes.txt", "what somebody wrote beside it");
  CHECK(RunDir::recover(folder.path("run")));
  fs::create_directory(folder.path("other"));
  folder.write("other/thesis.txt", "");
  const auto error = error_of([&] { (void)RunDir::recover(folder.path("other")); });
  REQUIRE(error);
  CHECK(error->exit_code() == 5);
  CHECK(contains(error->what(), "no run that could go on"));
  CHECK(entries(folder.path("other")) == 1);
}

TEST_CASE("opening a run for reading") {
  const TempFolder folder;
  CHECK(contains(error_of([&] { RunDir::open(folder.path("gone")); })->what(), "is not there"));
  CHECK(error_of([&] { RunDir::open(folder.path()); })->exit_code() == 4);
  folder.write("config.json", "{}");
  CHECK(RunDir::open(folder.path() + "/").path() == folder.path());
}

TEST_CASE("hashes are XXH3-128, as xxh128sum prints them") {
  const TempFolder folder;
  CHECK(Hash().digits() == "99aa06d3014798d86001c324468d497f");
  folder.write("abc", "abc");
  CHECK(hash_of_file(folder.path("abc")) == "06b05ab6733a618578af5f94892f3950");
  Hash pieces;
  pieces.add(std::string_view("a"));
  pieces.add(std::string_view("bc"));
  CHECK(pieces.digits() == hash_of_file(folder.path("abc")));
  CHECK(error_of([&] { (void)hash_of_file(folder.path("none")); })->exit_code() == 5);
}

}  // namespace mixtape::trainer

// Files that are on the disk when they are said to be.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <span>

#include "data/durable.h"
#include "data/file.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::slurp;
using tests::TempFolder;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
}  // namespace

TEST_CASE("durable: errors of a full disk have a code of their own") {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    const auto thrown = error_of([&] { fail_write("a/b", error); });
    REQUIRE(thrown);
    CHECK(thrown->code() == "E-IO-NOSPACE");
    CHECK(thrown->exit_code() == 5);
    CHECK(contains(thrown->what(), "a/b"));
  }
  CHECK(error_of([] { fail_write("a/b", EIO); })->code() == "E-IO-WRITE");
}

TEST_CASE("durable: what was written is there") {
  const TempFolder folder;
  DurableFile file(folder.path("a"));
  file.write(bytes_of("one "));
  file.write(bytes_of("two"));
  file.close();
  CHECK(file.size() == 7);
  CHECK(slurp(folder.path("a")) == "one two");
  rename_durably(folder.path("a"), folder.path("b"));
  CHECK(slurp(folder.path("b")) == "one two");
  CHECK(error_of([&] { rename_durably(folder.path("a"), folder.path("c")); })->code() == "E-IO-WRITE");
  CHECK(error_of([&] { sync_directory(folder.path("none")); })->code() == "E-IO-WRITE");
  CHECK(error_of([&] { const DurableFile inside(folder.path("none/a")); })->code() == "E-IO-WRITE");
}

TEST_CASE("durable: a size that is not what was written is an error") {
  const TempFolder folder;
  DurableFile file(folder.path("a"));
  file.write(bytes_of("one"));
  folder.write("a", "somebody else's");
  const auto error = error_of([&] { file.close(); });
  REQUIRE(error);
  CHECK(contains(error->what(), "3 bytes were written, but the file has 15"));
}

TEST_CASE("durable: a limit of file sizes is a full disk, and nothing half-written stays") {
  const TempFolder folder;
  rlimit before{}, low{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  low = before;
  low.rlim_cur = 1000;
  auto* const old = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  const auto error = error_of([&] {
    OutputFile file(folder.path("a"));
    file.write(bytes_of(std::string(5000, 'x')));
    file.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  REQUIRE(error);
  CHECK(error->code() == "E-IO-NOSPACE");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("durable: a directory takes the place of another, which keeps the first one's name") {
  const TempFolder folder;
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directory(folder.path(name));
    folder.write(name + "/a", name);
  };
  make("new");
  CHECK(replace_directory(folder.path("new"), folder.path("place")) == 0);
  CHECK(slurp(folder.path("place/a")) == "new");
  CHECK_FALSE(std::filesystem::exists(folder.path("new")));
  make("newer");
  CHECK(replace_directory(folder.path("newer"), folder.path("place")) == 0);
  CHECK(slurp(folder.path("place/a")) == "newer");
  CHECK(slurp(folder.path("newer/a")) == "new");
  CHECK(rename_to_free(folder.path("newer"), folder.path("place")) == EEXIST);
  CHECK(replace_directory(folder.path("none"), folder.path("place")) == ENOENT);
  CHECK(replace_directory(folder.path("newer"), folder.path("none/place")) == ENOENT);
  CHECK(slurp(folder.path("place/a")) == "newer");
}

TEST_CASE("durable: parents") {
  CHECK(parent_directory("a/b") == "a");
  CHECK(parent_directory("a") == ".");
  CHECK(parent_directory("/a") == "/");
}

}  // namespace mixtape::data

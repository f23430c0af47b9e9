// The JSON that a run writes, and its log.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/shared.h"
#include "tools/trainer/log.h"

namespace mixtape::trainer {
namespace {
using tests::contains;
using tests::error_of;
using tests::slurp;
using tests::TempFolder;

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("numbers are the shortest text that reads back as the same double") {
  CHECK(Json::array().push(0.1).push(1e-5).push(65536.0).push(2.0 / 3).line() ==
        "[0.1,1e-05,65536,0.6666666666666666]");
  CHECK(Json(static_cast<double>(0.1F)).line() == "0.10000000149011612");  // widened first
  CHECK(Json::array().push(7).push(int64_t{-9000000000}).push(size_t{3}).push(true).push(Json()).line() ==
        "[7,-9000000000,3,true,null]");
  for (const double value : {5e-324, 1.7976931348623157e308, -0.0, 0.3, 1e21, 123456789012345680.0}) {
    const std::string text = Json(value).line();
    CHECK(std::strtod(text.c_str(), nullptr) == value);
    CHECK(std::signbit(std::strtod(text.c_str(), nullptr)) == std::signbit(value));
    CHECK(nlohmann::json::parse(text).get<double>() == value);
  }
}

TEST_CASE("a number that is not finite is null and is named") {
  const Json event = Json::object().set("loss", nan).set("norm", inf).set("lr", 1).set("low", -inf);
  CHECK(event.line() ==
        "{\"loss\":null,\"norm\":null,\"lr\":1,\"low\":null,"
        "\"nonfinite\":{\"loss\":\"nan\",\"norm\":\"inf\",\"low\":\"-inf\"}}");
  const Json outer = Json::object().set("val", Json::object().set("loss", nan)).set("best", 2);
  CHECK(outer.line() == "{\"val\":{\"loss\":null,\"nonfinite\":{\"loss\":\"nan\"}},\"best\":2}");
  CHECK(nlohmann::json::parse(outer.pretty()) == nlohmann::json::parse(outer.line()));
  CHECK(Json::array().push(nan).line() == "[null]");
}

TEST_CASE("text is quoted, and indented JSON says the same") {
  const Json value = Json::object()
                         .set("a\"b", "line\nbreak\x01 caf\xC3\xA9 \xFF")
                         .set("list", std::vector<std::string>{"x", "y"})
                         .set("rows", Json::array().push(Json::array().push(1).push(2)).push(Json::array()))
                         .set("empty", Json::object())
                         .set("none", Json());
  CHECK(value.line() ==
        "{\"a\\\"b\":\"line\\u000abreak\\u0001 caf\xC3\xA9 \\udcff\",\"list\":[\"x\",\"y\"],\"rows\":[[1,2],[]],"
        "\"empty\":{},\"none\":null}");
  CHECK(
      value.pretty() ==
      "{\n  \"a\\\"b\": \"line\\u000abreak\\u0001 caf\xC3\xA9 \\udcff\",\n  \"list\": [\"x\", \"y\"],\n  \"rows\": [\n"
      "    [1, 2],\n    []\n  ],\n  \"empty\": {},\n  \"none\": null\n}\n");
}

TEST_CASE("the log is appended to, a line an event") {
  const TempFolder folder;
  {
    RunLog log(folder.path("log.jsonl"));
    log.write(RunLog::event("step").set("step", 1).set("loss", 0.5));
    CHECK(slurp(folder.path("log.jsonl")) == "{\"event\":\"step\",\"step\":1,\"loss\":0.5}\n");  // no buffer
  }
  RunLog(folder.path("log.jsonl")).write(RunLog::event("end"));
  CHECK(slurp(folder.path("log.jsonl")) == "{\"event\":\"step\",\"step\":1,\"loss\":0.5}\n{\"event\":\"end\"}\n");
}

TEST_CASE("a log that cannot be written is an error of kind io that names the file") {
  const auto missing = error_of([] { RunLog("/nowhere/log.jsonl"); });
  REQUIRE(missing);
  CHECK(missing->exit_code() == 5);
  CHECK(contains(missing->what(), "/nowhere/log.jsonl"));
  RunLog log("/dev/full");
  log.write(RunLog::event("step"));  // a full disk is no reason to stop: the line waits
  const auto full = error_of([&] { log.sync(); });
  REQUIRE(full);
  CHECK(full->code() == "E-IO-NOSPACE");
}

}  // namespace mixtape::trainer

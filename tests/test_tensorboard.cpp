// Event files: the bytes of the framing and of the messages, read back by a reader of its own. What the real program
// makes of them is checked by tests/tensorboard_reads.sh.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "tests/tiny_run.h"
#include "tools/report/event_file.h"
#include "tools/report/tensorboard.h"

namespace mixtape::tests {
namespace {

/// Fields of a protobuf message: number and payload, numbers as their bytes.
struct EventField {
  uint64_t number = 0;
  std::string bytes;
};

uint64_t event_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE_FALSE(rest.empty());
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<EventField> event_fields(std::string_view rest) {
  std::vector<EventField> out;
  while (!rest.empty()) {
    const uint64_t tag = event_varint(rest);
    size_t length = 0;
    switch (tag & 7) {
      case 0: {
        const uint64_t value = event_varint(rest);
        out.push_back({tag >> 3, std::string(reinterpret_cast<const char*>(&value), 8)});
        continue;
      }
      case 1: length = 8; break;
      case 2: length = event_varint(rest); break;
      case 5: length = 4; break;
      default: FAIL("wire type " << (tag & 7));
    }
    REQUIRE(length <= rest.size());
    out.push_back({tag >> 3, std::string(rest.substr(0, length))});
    rest.remove_prefix(length);
  }
  return out;
}

template <class Number>
Number event_number(const std::string& bytes, size_t at = 0) {
  Number value{};
  REQUIRE(bytes.size() >= (at + 1) * sizeof value);
  std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
  return value;
}

std::string event_bytes(const std::vector<EventField>& fields, uint64_t number) {
  for (const EventField& field : fields)
    if (field.number == number) return field.bytes;
  FAIL("no field " << number);
  return "";
}

uint32_t event_crc(std::string_view bytes) { return report::masked_crc32c(std::as_bytes(std::span(bytes))); }

/// The messages of a file whose every checksum holds.
std::vector<std::string> event_records(const std::string& file) {
  std::vector<std::string> out;
  std::string_view rest = file;
  while (!rest.empty()) {
    const auto length = event_number<uint64_t>(std::string(rest.substr(0, 8)));
    CHECK(event_number<uint32_t>(std::string(rest.substr(8, 4))) == event_crc(rest.substr(0, 8)));
    REQUIRE(rest.size() >= 16 + length);
    out.emplace_back(rest.substr(12, length));
    CHECK(event_number<uint32_t>(std::string(rest.substr(12 + length, 4))) == event_crc(out.back()));
    rest.remove_prefix(16 + length);
  }
  return out;
}

struct EventScalar {
  std::string tag;
  int64_t step = 0;
  double wall_time = 0;
  float value = 0;
};

std::vector<EventScalar> event_scalars(const std::string& path) {
  std::vector<EventScalar> out;
  const std::vector<std::string> records = event_records(slurp(path));
  for (size_t i = 1; i < records.size(); ++i) {
    const std::vector<EventField> event = event_fields(records[i]);
    const std::vector<EventField> value = event_fields(event_bytes(event_fields(event_bytes(event, 5)), 1));
    if (value.back().number != 2) continue;
    out.push_back({event_bytes(value, 1), event_number<int64_t>(event_bytes(event, 2)),
                   event_number<double>(event_bytes(event, 1)), event_number<float>(event_bytes(value, 2))});
  }
  return out;
}

std::vector<double> event_doubles(const std::string& bytes) {
  std::vector<double> out;
  for (size_t i = 0; i < bytes.size() / 8; ++i) out.push_back(event_number<double>(bytes, i));
  return out;
}

}  // namespace

TEST_CASE("tensorboard: the checksum is CRC-32C, masked") {
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and counting up; unmasked here.
  const auto crc = [](const std::string& bytes) {
    const uint32_t masked = event_crc(bytes) - 0xA282EAD8u;
    return masked << 15 | masked >> 17;
  };
  std::string counting;
  for (char c = 0; c < 32; ++c) counting += c;
  CHECK(crc(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc(std::string(32, '\xFF')) == 0x62A8AB43u);
  CHECK(crc(counting) == 0x46DD794Eu);
  CHECK(crc("123456789") == 0xE3069283u);
}

TEST_CASE("tensorboard: a file begins with its version; scalars hold tag, step, time and value") {
  const TempFolder folder;
  report::EventFile file(folder.path("a"));
  file.scalar("train/loss", 300, 1.5, 0.1);
  file.scalar("train/loss", int64_t{1} << 40, 2.5, std::numeric_limits<double>::quiet_NaN());
  file.commit();
  const std::vector<std::string> records = event_records(slurp(folder.path("a")));
  REQUIRE(records.size() == 3);
  CHECK(event_bytes(event_fields(records[0]), 3) == "brain.Event:2");
  const std::vector<EventScalar> scalars = event_scalars(folder.path("a"));
  REQUIRE(scalars.size() == 2);
  CHECK(scalars[0].tag == "train/loss");
  CHECK(scalars[0].step == 300);
  CHECK(scalars[0].wall_time == 1.5);
  CHECK(scalars[0].value == 0.1f);
  CHECK(scalars[1].step == int64_t{1} << 40);
  CHECK(std::isnan(scalars[1].value));
}

TEST_CASE("tensorboard: a histogram counts each value once, between powers of two on both sides of 0") {
  report::Spread spread;
  const std::vector<double> values = {0, 1, 1.5, 2, -1, -3, -4, 0.25, 1e-30, -1e-30, std::nan(""), INFINITY};
  for (const double value : values) spread.add(value);
  const std::vector<EventField> message = event_fields(spread.message());
  CHECK(event_number<double>(event_bytes(message, 1)) == -4);
  CHECK(event_number<double>(event_bytes(message, 2)) == 2);
  CHECK(event_number<double>(event_bytes(message, 3)) == 10);
  CHECK(event_number<double>(event_bytes(message, 4)) == -3.25);
  CHECK(event_number<double>(event_bytes(message, 5)) == doctest::Approx(33.3125));
  const std::vector<double> limits = event_doubles(event_bytes(message, 6)),
                            counts = event_doubles(event_bytes(message, 7));
  REQUIRE(limits.size() == counts.size());
  CHECK(std::is_sorted(limits.begin(), limits.end()));
  const auto in_bucket = [&](double low, double high) {
    for (size_t i = 1; i < limits.size(); ++i)
      if (limits[i - 1] == low && limits[i] == high) return counts[i];
    return -1.0;
  };
  CHECK(in_bucket(1, 2) == 2);
  CHECK(in_bucket(2, 4) == 1);
  CHECK(in_bucket(0.25, 0.5) == 1);
  CHECK(in_bucket(-2, -1) == 1);
  CHECK(in_bucket(-4, -2) == 1);
  CHECK(in_bucket(-8, -4) == 1);
  CHECK(in_bucket(-0x1p-40, 0) == 2);
  CHECK(in_bucket(0, 0x1p-40) == 1);
  double all = 0;
  for (const double count : counts) all += count;
  CHECK(all == 10);
}

TEST_CASE("tensorboard: the scalars of a run are those of its log, every skip among them") {
  const TinyRun tiny;
  REQUIRE(run_program("train '" + tiny.config_path() + "' -q -s '" + tiny.path("run") +
                      "' --set amp.dtype=fp16 --set amp.init_scale=16777216 --set trainer.logging_steps=5")
              .exit_code == 0);
  const ProgramResult result = run_program("report '" + tiny.path("run") + "' --tensorboard '" + tiny.path("tb") + "'");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const std::string path = tiny.path("tb/run/events.out.tfevents.0000000000.mixtape");
  CHECK(result.err == "wrote " + path + "\n");
  const std::vector<EventScalar> scalars = event_scalars(path);
  const auto of = [&](const std::string& tag) {
    std::vector<EventScalar> out;
    for (const EventScalar& scalar : scalars)
      if (scalar.tag == tag) out.push_back(scalar);
    return out;
  };
  const auto log = read_log(tiny.path("run/log.jsonl"));
  const auto steps = events_of(log, "step"), skips = events_of(log, "overflow");
  const std::vector<EventScalar> losses = of("train/loss");
  REQUIRE(losses.size() == steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    CHECK(losses[i].step == steps[i]["step"]);
    CHECK(losses[i].value == steps[i]["loss"].get<float>());
  }
  REQUIRE_FALSE(skips.empty());
  CHECK(of("train/skipped").back().value == static_cast<float>(skips.size()));
  CHECK(of("test/macro_f1").size() == 1);
  CHECK(of("val/accuracy").size() == 2);
  const size_t before = event_records(slurp(path)).size();
  REQUIRE(run_program("report '" + tiny.path("run") + "' --tensorboard '" + tiny.path("tb") + "'").exit_code == 0);
  CHECK(event_records(slurp(path)).size() == before);
  for (size_t i = 1; i < losses.size(); ++i) CHECK(losses[i].wall_time >= losses[i - 1].wall_time);
}

}  // namespace mixtape::tests

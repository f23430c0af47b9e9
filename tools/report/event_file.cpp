#include "tools/report/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace mixtape::report {
namespace {

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}();

/// The low byte first.
template <class Bits>
std::string little_endian(Bits bits) {
  std::string out;
  for (size_t i = 0; i < sizeof(Bits); ++i) out += static_cast<char>(bits >> 8 * i & 0xFF);
  return out;
}

std::string double_bytes(double value) { return little_endian(std::bit_cast<uint64_t>(value)); }

/// Seven bits a byte, the lowest first; the top bit says that more follow.
std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}

// A field of a message: its number and wire type, then its bytes. Types: 0 varint, 1 eight bytes, 2 length and bytes,
// 5 four bytes.
std::string tagged(uint32_t field, uint32_t type) { return varint(field << 3 | type); }
std::string integer_field(uint32_t field, int64_t value) {
  return tagged(field, 0) + varint(static_cast<uint64_t>(value));
}
std::string double_field(uint32_t field, double value) { return tagged(field, 1) + double_bytes(value); }
std::string float_field(uint32_t field, double value) {
  return tagged(field, 5) + little_endian(std::bit_cast<uint32_t>(static_cast<float>(value)));
}
std::string bytes_field(uint32_t field, std::string_view bytes) {
  return tagged(field, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string summary_event(int64_t step, double wall_time, const std::string& value) {
  return double_field(1, wall_time) + integer_field(2, step) + bytes_field(5, bytes_field(1, value));
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc_table[(crc ^ static_cast<uint32_t>(byte)) & 0xFF] ^ crc >> 8;
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

void Spread::add(double value) {
  if (!std::isfinite(value)) return;
  int exponent = 0;
  (void)std::frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent)
  const double outer = std::ldexp(1.0, std::max(exponent, lowest));
  // A bucket ends at its limit: the outer power above 0, the inner one below.
  ++buckets_[value > 0 ? outer : value < 0 && exponent > lowest ? -outer / 2 : 0];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  sum_ += value;
  squares_ += value * value;
}

std::string Spread::message() const {
  std::map<double, int64_t> all = buckets_;
  // Each bucket begins where the one before ends: an empty one before each that stands alone.
  for (const auto& [limit, count] : buckets_)
    all.try_emplace(limit > 0   ? (limit > std::ldexp(1.0, lowest) ? limit / 2 : 0)
                    : limit < 0 ? limit * 2
                                : -std::ldexp(1.0, lowest));
  std::string limits, counts;
  for (const auto& [limit, count] : all) {
    limits += double_bytes(limit);
    counts += double_bytes(static_cast<double>(count));
  }
  return double_field(1, min_) + double_field(2, max_) + double_field(3, static_cast<double>(count_)) +
         double_field(4, sum_) + double_field(5, squares_) + bytes_field(6, limits) + bytes_field(7, counts);
}

EventFile::EventFile(const std::string& path) : file_(path) {
  record(double_field(1, 0) + bytes_field(3, "brain.Event:2"));
}

void EventFile::scalar(std::string_view tag, int64_t step, double wall_time, double value) {
  record(summary_event(step, wall_time, bytes_field(1, tag) + float_field(2, value)));
}

void EventFile::histogram(std::string_view tag, int64_t step, double wall_time, const Spread& values) {
  record(summary_event(step, wall_time, bytes_field(1, tag) + bytes_field(5, values.message())));
}

void EventFile::record(const std::string& event) {
  const std::string length = little_endian(uint64_t{event.size()});
  const std::string whole =
      length + little_endian(masked_crc32c(bytes_of(length))) + event + little_endian(masked_crc32c(bytes_of(event)));
  file_.write(bytes_of(whole));
}

}  // namespace mixtape::report

// EventFile: the files that TensorBoard reads. Records of TFRecord framing, each a protobuf message Event:
//
//   length (u64), masked CRC32C of these 8 bytes (u32), the message, its masked CRC32C (u32); all little-endian
//   Event          wall_time = 1 (double)  step = 2 (int64)  file_version = 3 (string)  summary = 5 (Summary)
//   Summary        value = 1 (repeated Value)
//   Value          tag = 1 (string)  simple_value = 2 (float)  histo = 5 (HistogramProto)
//   HistogramProto min = 1  max = 2  num = 3  sum = 4  sum_squares = 5 (double)  bucket_limit = 6  bucket = 7 (packed)
//
// (tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.h.)
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "data/file.h"

namespace mixtape::report {

/// CRC-32C (Castagnoli) of the bytes, rotated and shifted as TFRecord stores it.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// How values are spread, in buckets of powers of two on both sides of 0. What is not finite is left out.
class Spread {
 public:
  void add(double value);
  /// The message HistogramProto.
  std::string message() const;
  bool empty() const { return count_ == 0; }

 private:
  static constexpr int lowest = -40;        // smaller magnitudes share the innermost buckets
  std::map<double, int64_t> buckets_ = {};  // by upper limit
  int64_t count_ = 0;
  double min_ = 0, max_ = 0, sum_ = 0, squares_ = 0;
};

class EventFile {
 public:
  /// Begins the file, which appears under its name with commit(). Errors are kind io.
  explicit EventFile(const std::string& path);

  /// `wall_time` is in seconds since 1970. A scalar is stored as a float.
  void scalar(std::string_view tag, int64_t step, double wall_time, double value);
  void histogram(std::string_view tag, int64_t step, double wall_time, const Spread& values);
  void commit() { file_.commit(); }

 private:
  void record(const std::string& event);

  data::OutputFile file_;
};

}  // namespace mixtape::report

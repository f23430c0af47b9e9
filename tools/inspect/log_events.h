// The events of a log.jsonl, read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/config/json_locate.h"

namespace mixtape::inspect {

/// One line.
struct LogEvent {
  std::string name;  ///< "step", "eval", …
  int64_t line = 1;
  config::Value object;

  /// Absent where there is no such member, or it is of another kind or null.
  std::optional<double> number(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::string text(std::string_view key) const;                ///< "" for absent
  std::vector<std::string> texts(std::string_view key) const;  ///< of an array; no array has none
  bool flag(std::string_view key) const;
};

struct LogEvents {
  std::vector<LogEvent> events;
  std::vector<int64_t> damaged;  ///< the lines that are no event: a machine that lost power leaves one, the last
  int64_t lines = 0;
  bool is_cut = false;  ///< the last line has no end: the run was killed, or is writing it now
};

/// Reads DIR/log.jsonl; a missing one has no events. Errors of the disk are kind io.
LogEvents read_log_events(const std::string& dir);

}  // namespace mixtape::inspect

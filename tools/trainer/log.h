// RunLog: log.jsonl, one event a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/trainer/json.h"

namespace mixtape::trainer {

/// An append-only file of events. Each line is written whole and at once, so that a killed run leaves whole lines.
/// While the disk is full they wait in memory, and every later write tries again.
class RunLog {
 public:
  /// Opens `path` for appending, making it where needed. Errors are kind io and name the path (E-IO-WRITE,
  /// E-IO-NOSPACE).
  explicit RunLog(std::string path);
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  ~RunLog();

  /// {"event":"step",…}: an object to be filled and handed to write().
  static Json event(std::string_view name) { return Json::object().set("event", name); }
  void write(const Json& event);
  /// Everything so far is on the disk, or E-IO-NOSPACE or E-IO-WRITE is thrown.
  void sync();

 private:
  void flush();

  std::string path_, waiting_;
  int descriptor_ = -1;
};

/// What a log says of a run up to a checkpoint.
struct LogEnd {
  int64_t bytes = 0;   ///< of the lines that belong to it
  double seconds = 0;  ///< of training, as the last "checkpoint" among them says
};

/// Where the log of a run ends that stands at `step`, evaluated last at `evaluated_at`: before the first line that is
/// later, cut, or no event. A missing file is empty.
LogEnd end_of_log(const std::string& path, int64_t step, int64_t evaluated_at);

/// Cuts the file there, durably.
void cut_log(const std::string& path, const LogEnd& end);

}  // namespace mixtape::trainer

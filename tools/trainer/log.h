// RunLog: log.jsonl, one event a line.
#pragma once

#include <string>

#include "tools/trainer/json.h"

namespace mixtape::trainer {

/// An append-only file of events. Each line is written whole and at once, so that a killed run leaves whole lines.
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

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace mixtape::trainer

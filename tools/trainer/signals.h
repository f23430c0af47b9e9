// Signals: what asks a run to save and stop. Only a program installs handlers; the library polls.
#pragma once

#include <stdexcept>

namespace mixtape::trainer {

/// Thrown by Signals::poll(): the work in hand ends, and the run saves itself. Not a failure.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted by a signal"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Handlers as long as it lives; one at a time. SIGINT, SIGTERM and SIGUSR1 ask for a stop, and the second of them ends
/// the process at once with 128 + its number. SIGHUP asks for a save. SIGPIPE and SIGXFSZ are ignored, so that the
/// calls that met them fail with EPIPE and EFBIG instead.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();
  /// Those of a program that does nothing else: handlers stay to the very end of the process. A run that is finished
  /// and on the disk is not made a killed one by a signal that comes while the program ends.
  static Signals& of_process();

  /// Throws Interrupted when a stop was asked for.
  void poll() const;
  /// True once after a SIGHUP.
  bool take_save_request();
};

/// "SIGINT", "SIGTERM", "SIGUSR1", or the number.
const char* name_of_signal(int signal);

}  // namespace mixtape::trainer

// Progress: what a person sees on stderr while something runs: one line that is redrawn on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mixtape::trainer {

/// A training step, as the progress line shows it.
struct StepStatus {
  int64_t epoch = 1, epochs = 1;  ///< from 1
  int64_t step = 0, steps = 1;
  double loss = 0, grad_norm = 0, lr = 0;
  double loss_scale = 1;  ///< shown unless 1
  int64_t skipped = 0;    ///< shown unless 0
  double tokens_per_s = 0;
  std::optional<double> eta_s = {};  ///< absent: not known yet
};

/// `epoch 2/3 step 1028/2235 46% loss 0.412 gnorm 0.83 lr 1.2e-05 scale 65536 skip 1 1850 tok/s ETA 04:12`, in at most
/// `width` characters: what says least is left out first.
std::string step_line(const StepStatus& status, size_t width);

/// "04:12", "2:04:12" or "3d 04h"; "--:--" for what is not known, negative or absurd (over 1,000 days).
std::string duration_text(std::optional<double> seconds);

enum class Verbosity { quiet, normal, verbose };

/// Where progress goes; everything that depends on the outside, so that tests can play it.
struct Screen {
  bool terminal = false;          ///< redraw one line with CR; otherwise no CR and no escape code is ever written
  std::function<size_t()> width;  ///< columns; asked at every drawing, as windows change
  std::function<double()> now;    ///< seconds of a clock that never jumps
  std::function<void(std::string_view)> write;
};
/// stderr and the steady clock. A TERM that is "dumb" or missing is no terminal.
Screen stderr_screen();

class Progress {
 public:
  explicit Progress(Verbosity verbosity = Verbosity::normal) : Progress(verbosity, stderr_screen()) {}
  Progress(Verbosity verbosity, Screen screen) : verbosity_(verbosity), screen_(std::move(screen)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// Lines of their own, never mixed with the progress line: for everyone but -q, only with -v, or always.
  void note(std::string_view text);
  void detail(std::string_view text);
  void warning(std::string_view text);

  /// After a training step. On a terminal the line is redrawn, at most ten times a second; elsewhere a line is written
  /// for `log_line`s alone.
  void step(const StepStatus& status, bool log_line);
  /// Removes the line from the terminal.
  void clear();

  double now() const { return screen_.now(); }
  /// Called by every Activity as it goes on; what it throws ends the work: how a signal is heard in tokenization and
  /// evaluation.
  void on_activity(std::function<void()> poll) { poll_ = std::move(poll); }

 private:
  friend class Activity;
  void draw(const std::string& line, bool force);
  void line(std::string_view text);
  size_t width() const;

  Verbosity verbosity_;
  Screen screen_;
  std::function<void()> poll_;
  bool drawn_ = false;
  double drawn_at_ = -1e300;
};

/// Work other than training: says nothing for two seconds, then shows "tokenizing train 5200/11916".
class Activity {
 public:
  /// `total` 0: not known.
  Activity(Progress& progress, std::string what, int64_t total);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity() { progress_.clear(); }
  /// So much of `total` is done. Elsewhere than on a terminal a line is written every ten seconds.
  void done(int64_t count);

 private:
  Progress& progress_;
  std::string what_;
  int64_t total_;
  double started_, next_line_;
};

}  // namespace mixtape::trainer

#include "tools/trainer/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace mixtape::trainer {
namespace {

constexpr double kPatience = 2;        // seconds that pass before other work shows itself
constexpr double kPlainInterval = 10;  // seconds between plain lines of other work
constexpr double kRedraw = 0.1;        // seconds between two drawings
constexpr size_t kNoLimit = 1000;      // columns of a plain line

/// A piece of the line and how much it is missed: pieces of the highest rank go first.
struct Piece {
  std::string text;
  int rank;
};

size_t length_of(const std::vector<Piece>& pieces) {
  size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.text.size() + 1;
  return sum == 0 ? 0 : sum - 1;
}

std::string joined(const std::vector<Piece>& pieces) {
  std::string out;
  for (const Piece& piece : pieces) out += (out.empty() ? "" : " ") + piece.text;
  return out;
}

/// With so many decimals, or as 1.2e-07 where these would say little.
std::string number(double value, int decimals) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size != 0 && (size < std::pow(10.0, -decimals) || size >= 1e5)) return fmt::format("{:.1e}", value);
  return fmt::format("{:.{}f}", value, decimals);
}

/// Rounded, but 100 only at the end.
int64_t percent(int64_t part, int64_t whole) {
  if (part >= whole) return 100;
  return std::min<int64_t>(99, std::lround(100.0 * static_cast<double>(part) / static_cast<double>(whole)));
}

}  // namespace

std::string step_line(const StepStatus& s, size_t width) {
  std::vector<Piece> pieces = {{fmt::format("epoch {}/{}", s.epoch, s.epochs), 5},
                               {fmt::format("step {}/{}", s.step, s.steps), 0},
                               {fmt::format("{}%", percent(s.step, s.steps)), 4},
                               {"loss " + number(s.loss, 3), 1},
                               {"gnorm " + number(s.grad_norm, 2), 7},
                               {fmt::format("lr {:.2g}", s.lr), 8}};
  if (s.loss_scale != 1) pieces.push_back({message("scale ", s.loss_scale), 9});
  if (s.skipped != 0) pieces.push_back({fmt::format("skip {}", s.skipped), 3});
  pieces.push_back({fmt::format("{:.0f} tok/s", s.tokens_per_s), 6});
  pieces.push_back({"ETA " + duration_text(s.eta_s), 2});
  while (length_of(pieces) > width && pieces.size() > 1) {
    pieces.erase(
        std::max_element(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.rank < b.rank; }));
  }
  return joined(pieces).substr(0, width);
}

std::string duration_text(std::optional<double> seconds) {
  constexpr double day = 86400;
  if (!seconds || !(*seconds >= 0) || *seconds > 1000 * day) return "--:--";
  const int64_t s = static_cast<int64_t>(std::ceil(*seconds));
  if (s < 3600) return fmt::format("{:02}:{:02}", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}d {:02}h", s / 86400, s / 3600 % 24);
}

Screen stderr_screen() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  Screen screen;
  screen.terminal = ::isatty(STDERR_FILENO) == 1 && !dumb;
  screen.width = [] {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size_t{size.ws_col} : size_t{80};
  };
  screen.now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  screen.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return screen;
}

void Progress::note(std::string_view text) {
  if (verbosity_ != Verbosity::quiet) line(text);
}

void Progress::detail(std::string_view text) {
  if (verbosity_ == Verbosity::verbose) line(text);
}

void Progress::warning(std::string_view text) { line(text); }

void Progress::step(const StepStatus& status, bool log_line) {
  if (verbosity_ == Verbosity::quiet) return;
  if (screen_.terminal)
    draw(step_line(status, width()), status.step == status.steps);
  else if (log_line)
    line(step_line(status, kNoLimit));
}

void Progress::clear() {
  if (drawn_) screen_.write("\r\x1b[K");
  drawn_ = false;
  drawn_at_ = -1e300;
}

void Progress::line(std::string_view text) {
  clear();
  std::string whole(text);
  if (whole.empty() || whole.back() != '\n') whole += '\n';
  screen_.write(whole);
}

void Progress::draw(const std::string& text, bool force) {
  if (!force && screen_.now() - drawn_at_ < kRedraw) return;
  screen_.write("\r\x1b[K" + text);
  drawn_ = true;
  drawn_at_ = screen_.now();
}

/// The last column stays free: a terminal that wraps there would scroll.
size_t Progress::width() const { return std::max<size_t>(screen_.width(), 2) - 1; }

Activity::Activity(Progress& progress, std::string what, int64_t total)
    : progress_(progress), what_(std::move(what)), total_(total), started_(progress.now()) {
  next_line_ = started_ + kPatience;
}

void Activity::done(int64_t count) {
  if (progress_.poll_) progress_.poll_();
  const double now = progress_.now();
  if (progress_.verbosity_ == Verbosity::quiet || now - started_ < kPatience) return;
  std::string text = what_;
  if (total_ > 0) text += fmt::format(" {}/{}", count, total_);
  if (progress_.screen_.terminal) {
    progress_.draw(text.substr(0, progress_.width()), false);
  } else if (now >= next_line_) {
    progress_.line(text);
    next_line_ = now + kPlainInterval;
  }
}

}  // namespace mixtape::trainer

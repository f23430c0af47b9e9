// Errors: one exception type that carries its kind (the exit code), a stable code and a message with place and remedy.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mixtape {

/// What went wrong, as the process exit code that a program returns for it (docs: "exit codes").
enum class ErrorKind : int {
  internal = 1,   ///< misuse of the library or a fault in it: shapes, dtypes, missing kernels
  config = 2,     ///< configuration or usage
  data = 3,       ///< data sets and label files
  model = 4,      ///< model and checkpoint files
  io = 5,         ///< disk full, permission, directory in use
  memory = 12,    ///< out of memory
  diverged = 20,  ///< max_consecutive_skips non-finite steps in a row
};

/// The one exception type of the library.
class Error : public std::runtime_error {
 public:
  /// `code` is stable and searchable ("E-SHAPE"); `message` says what was expected, what came, and the remedy.
  Error(ErrorKind kind, std::string code, const std::string& message)
      : std::runtime_error(message), kind_(kind), code_(std::move(code)) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  const std::string& code() const { return code_; }

 private:
  ErrorKind kind_;
  std::string code_;
};

namespace text {
void append(std::string& out, std::string_view piece);
void append(std::string& out, char piece);
void append(std::string& out, double piece);  // shortest form that reads back as the same double
void append(std::string& out, int64_t piece);
inline void append(std::string& out, const char* piece) { append(out, std::string_view(piece)); }
inline void append(std::string& out, const std::string& piece) { append(out, std::string_view(piece)); }
inline void append(std::string& out, bool piece) { append(out, std::string_view(piece ? "true" : "false")); }
inline void append(std::string& out, int piece) { append(out, static_cast<int64_t>(piece)); }
inline void append(std::string& out, unsigned piece) { append(out, static_cast<int64_t>(piece)); }
inline void append(std::string& out, unsigned long piece) { append(out, static_cast<int64_t>(piece)); }
}  // namespace text

/// Concatenates strings and numbers: the message builder of files that must also compile as CUDA (fmt would cost
/// seconds).
template <class... Pieces>
std::string message(const Pieces&... pieces) {
  std::string out;
  (text::append(out, pieces), ...);
  return out;
}

[[noreturn]] void fail(ErrorKind kind, std::string code, const std::string& message);

}  // namespace mixtape

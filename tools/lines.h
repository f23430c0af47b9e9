// Lines of a file or of stdin, one at a time as they arrive: for verbs that answer line by line.
#pragma once

#include <memory>
#include <string>

#include "data/file.h"

namespace mixtape::tools {

/// Cuts at LF and nowhere else; the last line may lack its LF. A CR stays: to a tokenizer it is a blank.
class LineReader {
 public:
  static constexpr size_t longest_line = 1'000'000;

  /// `path` "-" is stdin. A missing file is E-DATA-FILE (data).
  explicit LineReader(const std::string& path);

  /// The next line without its end; false at the end of the input. A line of more than 1 MB is E-DATA-LINE (data),
  /// which names the line.
  bool next(std::string& line);
  /// True when `next` would have to wait for input: the moment to flush.
  bool would_read() const;

 private:
  std::string name_;
  data::InputFile file_;
  std::string buffer_;
  size_t at_ = 0;
  size_t searched_ = 0;  ///< no LF between at_ and here
  int64_t line_ = 0;
  bool ended_ = false;
};

/// Collects output lines and writes them whenever the input runs dry: as good as a flush after each, and far cheaper.
class LineWriter {
 public:
  explicit LineWriter(const LineReader& reader) : reader_(reader) {}
  /// Adds the line and its LF.
  void add(const std::string& line);
  /// Writes what is left.
  void finish();

 private:
  const LineReader& reader_;
  std::string pending_;
};

}  // namespace mixtape::tools

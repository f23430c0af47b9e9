#include "tools/trainer/manifest.h"

#include <charconv>

#include "core/error.h"
#include "data/file.h"
#include "tools/trainer/hash.h"

namespace mixtape::trainer {
namespace {

constexpr std::string_view first_line = "mixtape checkpoint, format 1";
constexpr uint64_t kMostBytes = 65'536;
constexpr size_t kMostFiles = 64;

/// Takes words off the front of a text; one that is not there empties it and says so for good.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  bool good() const { return good_; }
  bool at_end() const { return rest_.empty(); }

  void expect(std::string_view word) {
    if (!rest_.starts_with(word)) return lose();
    rest_.remove_prefix(word.size());
  }
  bool starts_with(std::string_view word) const { return rest_.starts_with(word); }
  std::string_view until(char end) {
    const size_t at = rest_.find(end);
    if (at == std::string_view::npos) return lose(), std::string_view();
    const std::string_view word = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return word;
  }
  int64_t number(char end) {
    const std::string_view word = until(end);
    int64_t value = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size() || value < 0) lose();
    return value;
  }

 private:
  void lose() { good_ = false, rest_ = {}; }

  std::string_view rest_;
  bool good_ = true;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

std::string hash_of_text(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.digits();
}

std::string fault_of_file(const std::string& dir, const Manifest::File& file) {
  const std::string path = message(dir, "/", file.name);
  try {
    const data::InputFile input(path, ErrorKind::model, "E-FILE-MISSING");
    if (const int64_t size = static_cast<int64_t>(input.size()); size != file.size) {
      return message(path, ": has ", size, " bytes, the MANIFEST says ", file.size);
    }
    if (hash_of_file(path) != file.hash) return message(path, ": its content is not what the MANIFEST's hash says");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string Manifest::text() const {
  std::string out = message(first_line, "\nstep ", step, "\nbest ", best_step, "\nconfig ", config, "\n");
  for (const File& file : files) out += message("file ", file.name, " ", file.size, " ", file.hash, "\n");
  return out + message("end ", hash_of_text(out), "\n");
}

data::Parsed<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMostBytes) return {.value = {}, .error = "more bytes than a MANIFEST may have"};
  Manifest manifest;
  Words words(text);
  words.expect(first_line);
  words.expect("\nstep ");
  manifest.step = words.number('\n');
  words.expect("best ");
  manifest.best_step = words.number('\n');
  words.expect("config ");
  manifest.config = words.until('\n');
  while (words.starts_with("file ") && manifest.files.size() < kMostFiles) {
    words.expect("file ");
    Manifest::File file{.name = std::string(words.until(' ')), .size = words.number(' '), .hash = {}};
    file.hash = words.until('\n');
    if (!is_plain_name(file.name)) return {.value = {}, .error = "a file of it has no plain name"};
    manifest.files.push_back(std::move(file));
  }
  // The text is ours to the last byte, or it is none of ours: spelling, order and its own hash in one comparison.
  if (!words.good() || manifest.files.empty() || manifest.text() != text) {
    return {.value = {}, .error = "is cut or was changed: its own hash does not hold"};
  }
  return {.value = std::move(manifest), .error = {}};
}

data::Parsed<Manifest> verify_directory(const std::string& dir) {
  const std::string path = dir + "/MANIFEST";
  std::string text;
  try {
    text = data::read_file(path, ErrorKind::model, "E-FILE-MISSING", kMostBytes);
  } catch (const Error& error) {
    return {.value = {}, .error = error.what()};
  }
  data::Parsed<Manifest> manifest = parse_manifest(text);
  if (!manifest.value) return {.value = {}, .error = message(path, ": ", manifest.error)};
  for (const Manifest::File& file : manifest.value->files) {
    if (std::string fault = fault_of_file(dir, file); !fault.empty()) return {.value = {}, .error = std::move(fault)};
  }
  return manifest;
}

}  // namespace mixtape::trainer

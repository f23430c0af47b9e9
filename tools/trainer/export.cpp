#include "tools/trainer/export.h"

#include <unistd.h>

#include <filesystem>
#include <span>
#include <vector>

#include "core/error.h"
#include "data/file.h"
#include "models/pretrained.h"
#include "tools/trainer/saved_run.h"

namespace mixtape::trainer {
namespace {

namespace fs = std::filesystem;
constexpr const char* file_names[] = {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json",
                                      "special_tokens_map.json"};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ErrorKind::io, "E-IO-DIR", path + ": " + what);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string source_of(const std::string& dir) {
  for (const std::string& source : {dir + "/best", dir}) {
    std::error_code ignored;
    if (fs::exists(source + "/config.json", ignored) && fs::exists(source + "/model.safetensors", ignored)) {
      return source;
    }
  }
  fail(ErrorKind::model, "E-RUN-DIR",
       dir + ": holds no best/ with a model; expected the DIR of a mixtape train -s DIR");
}

void check_target(const std::string& out) {
  std::error_code error;
  if (!fs::exists(out, error)) return;
  if (!fs::is_directory(out, error)) refuse(out, "is there and is no directory");
  if (!fs::is_empty(out, error) || error) refuse(out, "is not empty: name a new directory, nothing is written over");
}

void copy_file(const std::string& from, const std::string& to) {
  data::InputFile in(from, ErrorKind::model, "E-FILE-MISSING");
  data::OutputFile out(to);
  std::vector<std::byte> buffer(size_t{1} << 20);
  while (const size_t got = in.read_next(buffer)) out.write(std::span(buffer).first(got));
  out.commit();
}

/// A directory beside its place, removed unless it was moved there.
struct Draft {
  explicit Draft(const std::string& target) : path(message(target, ".tmp.", ::getpid())) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) refuse(target, "cannot be made: " + error.message());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace

void export_model(const std::string& dir, const std::string& given, Progress& progress) {
  const std::string out = without_slash(given), source = source_of(without_slash(dir));
  check_target(out);
  const models::PretrainedInfo info = models::read_pretrained(source);
  (void)load_saved_model(source, info);
  const Draft draft(out);
  for (const char* name : file_names) copy_file(message(source, "/", name), message(draft.path, "/", name));
  std::error_code error;
  fs::rename(draft.path, out, error);  // onto an empty directory, too
  if (error) refuse(out, "cannot be made: " + error.message());
  progress.note(message("exported ", source, " to ", out));
  progress.note("transformers computes in f32: what it predicts is what mixtape predict DIR --dtype off does");
  if (*info.pooling == models::Pooling::pooler) {
    progress.note("transformers loads it as AutoModelForSequenceClassification");
  } else {
    progress.note(
        "transformers loads it as BertModel; the head (classifier.weight and .bias, on the last hidden state at [CLS]) "
        "lies in the same file, as config.json's \"mixtape\" says. Train with model.pooling pooler for a model that "
        "loads as AutoModelForSequenceClassification");
  }
}

}  // namespace mixtape::trainer

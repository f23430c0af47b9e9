#include "tools/trainer/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/factory.h"
#include "data/durable.h"
#include "data/file.h"
#include "data/safetensors.h"
#include "tools/trainer/hash.h"

namespace mixtape::trainer {
namespace {

namespace fs = std::filesystem;
using Sink = std::function<void(std::span<const std::byte>)>;
constexpr uint64_t kMostStateBytes = 16'000'000;

/// The step of "step-00000012"; -1 for any other name.
int64_t step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  int64_t step = -1;
  if (!name.starts_with(prefix)) return -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? step : -1;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ErrorKind::io, "E-IO-READ", message(folder, ": cannot be looked into: ", error.message()));
  }
  return names;
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) data::fail_write(path, errno);
}

/// Writes files into a directory and remembers what the MANIFEST says of them.
class Writer {
 public:
  explicit Writer(std::string dir) : dir_(std::move(dir)) {}

  void write(const std::string& name, const std::function<void(const Sink&)>& fill) {
    data::DurableFile file(message(dir_, "/", name));
    Hash hash;
    fill([&](std::span<const std::byte> bytes) {
      hash.add(bytes);
      file.write(bytes);
    });
    file.close();
    files_.push_back({.name = name, .size = static_cast<int64_t>(file.size()), .hash = hash.digits()});
  }
  void write(const std::string& name, const std::string& text) {
    write(name, [&](const Sink& sink) { sink(std::as_bytes(std::span(text))); });
  }
  void write(const std::string& name, const NamedTensors& tensors) {
    write(name, [&](const Sink& sink) { data::write_safetensors(sink, tensors); });
  }
  const std::vector<Manifest::File>& files() const { return files_; }

 private:
  std::string dir_;
  std::vector<Manifest::File> files_;
};

void write_all_files(const std::string& dir, const RunState& state, const NamedTensors& parameters,
                     const NamedTensors& optimizer) {
  Writer writer(dir);
  writer.write("model.safetensors", parameters);
  writer.write("optimizer.safetensors", optimizer);
  writer.write("state.json", state.json());
  const Manifest manifest{.step = state.step,
                          .best_step = state.best ? state.best->step : 0,
                          .config = hash_of(state.trajectory),
                          .files = writer.files()};
  writer.write("MANIFEST", manifest.text());
  data::sync_directory(dir);
}

/// Whatever is there under a temporary name goes when the scope ends.
struct Temporary {
  explicit Temporary(std::string name) : path(std::move(name)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

/// Of the checkpoint in `dir`, and that its name is right.
data::Parsed<Manifest> verify(const std::string& dir, int64_t step) {
  data::Parsed<Manifest> manifest = verify_directory(dir);
  if (manifest.value && manifest.value->step != step) {
    return {.value = {}, .error = message(dir, "/MANIFEST: is that of step ", manifest.value->step)};
  }
  return manifest;
}

/// What the checkpoint in `dir` calls its best; 0 where it is damaged: nobody will go on from there.
int64_t best_step_of(const std::string& dir) {
  try {
    const std::string text = data::read_file(dir + "/MANIFEST", ErrorKind::model, "E-FILE-MISSING", kMostStateBytes);
    const data::Parsed<Manifest> manifest = parse_manifest(text);
    return manifest.value ? manifest.value->best_step : 0;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

Checkpoints::Checkpoints(std::string run_dir) : run_dir_(std::move(run_dir)), folder_(run_dir_ + "/checkpoints") {}

std::string Checkpoints::name_of(int64_t step) { return fmt::format("checkpoints/step-{:08}", step); }

std::string Checkpoints::path_of(int64_t step) const { return message(run_dir_, "/", name_of(step)); }

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> all;
  for (const std::string& name : names_in(folder_)) {
    if (const int64_t step = step_of(name); step >= 0) all.push_back(step);
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  return all;
}

Checkpoints::Found Checkpoints::newest(int64_t before) const {
  Found found;
  for (const int64_t step : steps()) {
    if (step >= before) continue;
    data::Parsed<Manifest> manifest = verify(path_of(step), step);
    if (manifest.value) {
      found.checkpoint = Checkpoint{.path = path_of(step), .manifest = std::move(*manifest.value)};
      break;
    }
    found.faults.push_back(manifest.error);
    found.damaged.push_back(step);
  }
  return found;
}

void Checkpoints::clean(const std::vector<int64_t>& damaged) const {
  for (const std::string& name : names_in(folder_)) {
    if (name.find(".tmp.") != std::string::npos) remove(message(folder_, "/", name));
  }
  for (const int64_t step : damaged) {
    const std::string aside = path_of(step) + ".damaged";
    remove(aside);
    data::rename_durably(path_of(step), aside);
  }
}

void Checkpoints::save(const RunState& state, const NamedTensors& parameters, const NamedTensors& optimizer,
                       int64_t keep) const {
  make_directory(folder_);
  data::sync_directory(run_dir_);
  clean({});  // a rotation that failed may have left something
  const std::string target = path_of(state.step);
  const Temporary temporary(message(target, ".tmp.", ::getpid()));
  make_directory(temporary.path);
  write_all_files(temporary.path, state, parameters, optimizer);
  // One of the same step is there when a run was stopped between a step and its evaluation: the new one knows more.
  if (const int error = data::replace_directory(temporary.path, target); error != 0) data::fail_write(target, error);
  data::sync_directory(folder_);
  data::OutputFile latest(run_dir_ + "/latest");
  const std::string name = name_of(state.step) + "\n";
  latest.write(std::as_bytes(std::span(name)));
  latest.commit();
  if (const data::Parsed<Manifest> written = verify(target, state.step); !written.value) {
    fail(ErrorKind::io, "E-IO-WRITE", "a checkpoint reads back otherwise than it was written: " + written.error);
  }
  rotate(keep);
}

void Checkpoints::rotate(int64_t keep) const {
  const std::vector<int64_t> all = steps();
  std::vector<int64_t> kept(all.begin(), all.begin() + std::min(keep, std::ssize(all)));
  for (const int64_t step : std::vector<int64_t>(kept)) kept.push_back(best_step_of(path_of(step)));
  for (const int64_t step : all) {
    if (std::find(kept.begin(), kept.end(), step) == kept.end()) remove(path_of(step));
  }
}

/// Under another name first, durably: half a checkpoint must never stand under the name of a whole one.
void Checkpoints::remove(const std::string& path) const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return;
  std::string doomed = path;
  if (path.find(".tmp.") == std::string::npos) {
    doomed = message(path, ".tmp.", ::getpid(), ".old");
    data::rename_durably(path, doomed);
  }
  fs::remove_all(doomed, error);
  if (error) fail(ErrorKind::io, "E-IO-WRITE", message(doomed, ": cannot be deleted: ", error.message()));
  data::sync_directory(folder_);  // what is deleted must not be back when the run has ended
}

RunState read_state(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.path + "/state.json";
  return parse_run_state(data::read_file(path, ErrorKind::model, "E-FILE-MISSING", kMostStateBytes), path);
}

NamedTensors read_tensors(const Checkpoint& checkpoint, const std::string& file) {
  const data::SafeTensorsFile input = data::SafeTensorsFile::open(message(checkpoint.path, "/", file));
  NamedTensors tensors;
  for (const data::TensorEntry& entry : input.tensors()) tensors.push_back({entry.name, input.read(entry)});
  return tensors;
}

void load_weights(const Checkpoint& checkpoint, const NamedTensors& parameters) {
  const data::SafeTensorsFile file = data::SafeTensorsFile::open(checkpoint.path + "/model.safetensors");
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::model, "E-CHECKPOINT", message(file.path(), ": ", what, ", so it is of another model"));
  };
  for (const auto& [name, tensor] : parameters) {
    const data::TensorEntry* entry = file.find(name);
    if (entry == nullptr) refuse(message("has no tensor ", name));
    if (!(entry->shape == tensor.shape()) || !is_float(entry->dtype)) {
      refuse(message(name, " is ", mixtape::name_of(entry->dtype), entry->shape.str(), " instead of ",
                     mixtape::name_of(tensor.dtype()), tensor.shape().str()));
    }
  }
  if (file.tensors().size() != parameters.size()) {
    refuse(message("has ", file.tensors().size(), " tensors instead of ", parameters.size()));
  }
  for (const auto& [name, tensor] : parameters) assign(tensor, file.read(*file.find(name)));
}

}  // namespace mixtape::trainer

// Checkpoints: DIR/checkpoints/step-NNNNNNNN/{model.safetensors,optimizer.safetensors,state.json,MANIFEST}. Equal runs
// leave equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/parameter.h"
#include "tools/trainer/manifest.h"
#include "tools/trainer/run_state.h"

namespace mixtape::trainer {

/// A complete one: every file was there with its size and hash when it was looked at.
struct Checkpoint {
  std::string path;
  Manifest manifest;
};

/// The checkpoints of a run directory.
class Checkpoints {
 public:
  explicit Checkpoints(std::string run_dir);

  /// "checkpoints/step-00000012".
  static std::string name_of(int64_t step);
  std::string path_of(int64_t step) const;

  /// The newest before step `before` that is complete, with a line for each newer one that is not: which file, and why.
  /// Looks only.
  struct Found {
    std::optional<Checkpoint> checkpoint;
    std::vector<std::string> faults;
    std::vector<int64_t> damaged;  ///< the steps of those
  };
  Found newest(int64_t before = INT64_MAX) const;

  /// Deletes what killed runs left half-written, and names damaged ones step-N.damaged. Only for who holds the lock.
  void clean(const std::vector<int64_t>& damaged) const;

  /// Writes a checkpoint beside its place, syncs it, renames it there, points `latest` at it, verifies it, and then
  /// deletes old ones: the newest `keep` stay, and the best model of each of them. Throws kind io (E-IO-NOSPACE,
  /// E-IO-WRITE); nothing half-written stays then, and every older one does.
  void save(const RunState& state, const NamedTensors& parameters, const NamedTensors& optimizer, int64_t keep) const;

 private:
  std::vector<int64_t> steps() const;  // newest first, complete or not
  void rotate(int64_t keep) const;
  void remove(const std::string& path) const;

  std::string run_dir_, folder_;
};

/// state.json of a complete checkpoint.
RunState read_state(const Checkpoint& checkpoint);
/// A tensor file of it. Errors are kind model and name the file.
NamedTensors read_tensors(const Checkpoint& checkpoint, const std::string& file);
/// Puts model.safetensors into parameters of the same names and shapes, rounded or widened where a run goes on with
/// another storage of parameters; all or nothing. Throws E-CHECKPOINT (model)
/// naming what does not fit.
void load_weights(const Checkpoint& checkpoint, const NamedTensors& parameters);

}  // namespace mixtape::trainer

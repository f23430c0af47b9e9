// RunDir: the directory that a run leaves behind, and how one comes into being.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mixtape::trainer {

/// The right to write into a directory: a lock on DIR/.lock that ends with the process.
class DirLock {
 public:
  /// Throws E-IO-LOCKED (io) naming process and host of who has it.
  explicit DirLock(const std::string& dir);
  DirLock(const DirLock&) = delete;
  DirLock& operator=(const DirLock&) = delete;
  ~DirLock();

  /// Throws E-IO-LOCKED if somebody has it now. Changes nothing.
  static void check(const std::string& dir);

 private:
  int descriptor_ = -1;
};

/// The paths of a run directory. Files appear complete or not at all, and are on the disk then.
class RunDir {
 public:
  /// Says early whether `create` could work: E-IO-DIR (io) names the path when it is not empty (with the ways out), is
  /// a file, or cannot be made there. Changes nothing.
  static void check(const std::string& path, bool force);

  /// Makes the directory with its parents, or takes an empty one that is there. With `force` a non-empty one is renamed
  /// to PATH.bak-N first, N being the first number that is free. Nothing is ever deleted, and after an error (E-IO-DIR,
  /// E-IO-LOCKED) nothing half-made is left. Holds the lock from then on.
  static RunDir create(const std::string& path, bool force);

  /// For --recover: a run that is there, to be gone on with; none where the directory is missing or empty. Throws
  /// E-IO-DIR (io) for a directory that holds something else. Holds the lock from then on, and has deleted temporary
  /// files that killed runs left.
  static std::optional<RunDir> recover(const std::string& path);
  /// Whether the last that a run writes is there, and whole: metrics.json, and the model of best/ in full length.
  static bool is_finished(const std::string& path);
  /// The path itself, or the nearest directory above it that is there.
  static std::string existing_part(const std::string& path);

  /// A run that is there already, for reading. Throws E-RUN-DIR (model) when there is no config.json in it.
  static RunDir open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const;
  std::string best() const { return path("best"); }
  /// "" unless `create` renamed what was there.
  const std::string& moved_to() const { return moved_to_; }

  void write(std::string_view name, std::string_view text) const;
  /// Calls fill(directory) with a new directory, which then becomes `name` in one step; one that was there is replaced.
  template <class Fill>
  void replace(std::string_view name, const Fill& fill) const {
    const Replacement replacement(path(name));
    fill(replacement.temporary);
    replacement.commit();
  }

 private:
  /// A directory beside its place, removed unless it was committed.
  struct Replacement {
    explicit Replacement(std::string target_path);
    Replacement(const Replacement&) = delete;
    Replacement& operator=(const Replacement&) = delete;
    ~Replacement();
    void commit() const;
    std::string target, temporary;
  };

  explicit RunDir(std::string path) : path_(std::move(path)) {}
  void lock();
  void remove_temporaries() const;

  std::string path_, moved_to_;
  std::shared_ptr<const DirLock> lock_;
};

}  // namespace mixtape::trainer

// RunDir: the directory that a run leaves behind, and how one comes into being.
#pragma once

#include <string>
#include <string_view>

namespace mixtape::trainer {

/// The paths of a run directory. Files appear complete or not at all.
class RunDir {
 public:
  /// Says early whether `create` could work: E-IO-DIR (io) names the path when it is not empty (with the ways out), is
  /// a file, or cannot be made there. Changes nothing.
  static void check(const std::string& path, bool force);

  /// Makes the directory with its parents, or takes an empty one that is there. With `force` a non-empty one is renamed
  /// to PATH.bak-N first, N being the first number that is free. Nothing is ever deleted, and after an error (E-IO-DIR)
  /// nothing half-made is left.
  static RunDir create(const std::string& path, bool force);

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

  std::string path_, moved_to_;
};

}  // namespace mixtape::trainer

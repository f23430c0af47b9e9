#include "tools/trainer/run_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "core/error.h"
#include "data/file.h"

namespace mixtape::trainer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ErrorKind::io, "E-IO-DIR", path + ": " + what);
}

[[noreturn]] void refuse(const std::string& path, const std::string& what, int error) {
  refuse(path, message(what, ": ", std::strerror(error)));
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool exists(const std::string& path) { return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

bool is_occupied(const std::string& path) {
  std::error_code error;
  const fs::directory_iterator entries(path, error);
  if (error) refuse(path, "cannot be looked into: " + error.message());
  return entries != fs::directory_iterator();
}

/// The name that --force gives to what is there.
std::string spare_name(const std::string& path) {
  for (int64_t number = 1;; ++number) {
    const std::string name = message(path, ".bak-", number);
    if (!exists(name)) return name;
  }
}

/// Renames without replacing anything: another program may have taken the name in between. 0 or the error.
int rename_to_free(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (exists(to)) return EEXIST;  // a file system without that flag
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

/// Both names exist at every moment: whoever looks finds the old directory or the new one. False where the file system
/// has no such call.
bool exchange(const std::string& a, const std::string& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) refuse(b, "cannot be replaced", errno);
  return false;
}

std::string move_aside(const std::string& path) {
  for (;;) {
    const std::string name = spare_name(path);
    const int error = rename_to_free(path, name);
    if (error == 0) return name;
    if (error != EEXIST) refuse(path, "cannot be renamed to " + name, error);
  }
}

/// Makes `path` and its parents; on failure removes those that it made.
void make_directories(const std::string& path) {
  std::vector<std::string> missing;  // the innermost first
  for (std::string at = path; !exists(at); at = parent_of(at)) missing.push_back(at);
  for (size_t i = missing.size(); i-- > 0;) {
    if (::mkdir(missing[i].c_str(), 0777) == 0) continue;
    const int error = errno;
    for (size_t made = i + 1; made < missing.size(); ++made) ::rmdir(missing[made].c_str());
    refuse(path, "cannot be made", error);
  }
}

}  // namespace

void RunDir::check(const std::string& given, bool force) {
  const std::string path = without_slash(given);
  if (path.empty()) fail(ErrorKind::config, "E-USAGE", "-s DIR: the run directory has no name");
  if (exists(path)) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) refuse(path, "is there and is no directory");
    const bool occupied = is_occupied(path);
    if (occupied && !force) {
      refuse(path, message("is not empty. Two ways out:\n  --force    renames it to ", spare_name(path),
                           " and starts anew (nothing is deleted)\n  --recover  goes on with the run that is in it"));
    }
    if (!occupied && ::access(path.c_str(), W_OK | X_OK) != 0) refuse(path, "nothing can be written there", errno);
    if (!occupied) return;
  }
  std::string parent = parent_of(path);
  while (!exists(parent)) parent = parent_of(parent);
  std::error_code ignored;
  if (!fs::is_directory(parent, ignored)) refuse(path, "cannot be made: " + parent + " is no directory");
  if (::access(parent.c_str(), W_OK | X_OK) != 0) refuse(path, "cannot be made in " + parent, errno);
}

RunDir RunDir::create(const std::string& given, bool force) {
  check(given, force);
  RunDir dir(without_slash(given));
  if (exists(dir.path_) && is_occupied(dir.path_)) dir.moved_to_ = move_aside(dir.path_);
  make_directories(dir.path_);
  return dir;
}

RunDir RunDir::open(const std::string& given) {
  const RunDir dir(without_slash(given));
  if (!exists(dir.path("config.json"))) {
    fail(ErrorKind::model, "E-RUN-DIR",
         message(dir.path_, exists(dir.path_) ? " holds no config.json" : " is not there",
                 ": it must be the DIR of an earlier mixtape train CONFIG -s DIR"));
  }
  return dir;
}

std::string RunDir::path(std::string_view name) const { return message(path_, "/", name); }

void RunDir::write(std::string_view name, std::string_view text) const {
  data::OutputFile file(path(name));
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

RunDir::Replacement::Replacement(std::string target_path)
    : target(std::move(target_path)), temporary(message(target, ".tmp.", ::getpid())) {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  if (::mkdir(temporary.c_str(), 0777) != 0) refuse(temporary, "cannot be made", errno);
}

RunDir::Replacement::~Replacement() {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
}

void RunDir::Replacement::commit() const {
  int error = rename_to_free(temporary, target);
  if (error == EEXIST || error == ENOTEMPTY) {
    if (exchange(temporary, target)) return;  // and the destructor removes the old one
    const std::string old = temporary + ".old";
    error = rename_to_free(target, old);
    if (error == 0) error = rename_to_free(temporary, target);
    std::error_code ignored;
    if (error == 0) fs::remove_all(old, ignored);
  }
  if (error != 0) refuse(target, "cannot be replaced", error);
}

}  // namespace mixtape::trainer

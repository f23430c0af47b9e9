#include "tools/trainer/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/error.h"
#include "data/file.h"
#include "data/weight_file.h"

namespace mixtape::trainer {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view lock_name = ".lock";

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ErrorKind::io, "E-IO-DIR", path + ": " + what);
}

[[noreturn]] void refuse(const std::string& path, const std::string& what, int error) {
  if (data::is_disk_full(error)) data::fail_write(path, error);
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
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename() != lock_name;  // all that a run leaves that was killed at once
  });
}

std::string host() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "unknown";
}

/// Takes the lock or says whose it is. A file system without locks (some network ones) lets everybody in.
void take_lock(int descriptor, const std::string& dir) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  char text[300] = {};
  const ssize_t got = ::pread(descriptor, text, sizeof text - 1, 0);
  const std::string owner = got > 0 ? text : "another process";
  fail(ErrorKind::io, "E-IO-LOCKED",
       message(dir, ": is in use by ", owner, owner.ends_with('\n') ? "" : "\n",
               "  wait for it, or stop it (it saves itself), or choose another directory"));
}

/// Something that only a run leaves, or nothing but what one leaves that was killed at once.
bool looks_like_a_run(const std::string& path) {
  for (const char* name : {"/config.json", "/log.jsonl", "/checkpoints"}) {
    if (exists(path + name)) return true;
  }
  std::error_code error;
  const fs::directory_iterator entries(path, error);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename();
    return name == lock_name || name.find(".tmp.") != std::string::npos;
  });
}

/// The name that --force gives to what is there.
std::string spare_name(const std::string& path) {
  for (int64_t number = 1;; ++number) {
    const std::string name = message(path, ".bak-", number);
    if (!exists(name)) return name;
  }
}

std::string move_aside(const std::string& path) {
  for (;;) {
    const std::string name = spare_name(path);
    const int error = data::rename_to_free(path, name);
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
    if (occupied) DirLock::check(path);
    if (occupied && !force) {
      refuse(path, message("is not empty. Two ways out:\n  --force    renames it to ", spare_name(path),
                           " and starts anew (nothing is deleted)\n  --recover  goes on with the run that is in it"));
    }
    if (!occupied && ::access(path.c_str(), W_OK | X_OK) != 0) refuse(path, "nothing can be written there", errno);
    if (!occupied) return;
  }
  const std::string parent = existing_part(parent_of(path));
  std::error_code ignored;
  if (!fs::is_directory(parent, ignored)) refuse(path, "cannot be made: " + parent + " is no directory");
  if (::access(parent.c_str(), W_OK | X_OK) != 0) refuse(path, "cannot be made in " + parent, errno);
}

RunDir RunDir::create(const std::string& given, bool force) {
  check(given, force);
  RunDir dir(without_slash(given));
  if (exists(dir.path_) && is_occupied(dir.path_)) dir.moved_to_ = move_aside(dir.path_);
  make_directories(dir.path_);
  dir.lock();
  return dir;
}

std::optional<RunDir> RunDir::recover(const std::string& given) {
  RunDir dir(without_slash(given));
  std::error_code error;
  if (!fs::is_directory(dir.path_, error) || !is_occupied(dir.path_)) {
    check(given, false);
    return std::nullopt;
  }
  DirLock::check(dir.path_);
  if (!looks_like_a_run(dir.path_)) refuse(dir.path_, "is not empty, and what it holds is no run that could go on");
  if (::access(dir.path_.c_str(), W_OK | X_OK) != 0) refuse(dir.path_, "nothing can be written there", errno);
  dir.lock();
  dir.remove_temporaries();
  return dir;
}

bool RunDir::is_finished(const std::string& path) {
  if (!exists(path + "/metrics.json")) return false;
  try {
    constexpr uint64_t most = uint64_t{1} << 24;
    const std::string metrics = data::read_file(path + "/metrics.json", ErrorKind::io, "E-IO-READ", most);
    (void)data::WeightFile::open(path + "/best");
    return nlohmann::json::accept(metrics);
  } catch (const Error&) {  // it goes on from its last checkpoint, and writes both again
    return false;
  }
}

std::string RunDir::existing_part(const std::string& given) {
  std::string path = without_slash(given);
  while (!exists(path)) path = parent_of(path);
  return path;
}

void RunDir::lock() { lock_ = std::make_shared<const DirLock>(path_); }

void RunDir::remove_temporaries() const {
  std::error_code error;
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    if (entry.path().filename().string().find(".tmp.") != std::string::npos) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
  if (error) refuse(path_, "a temporary file of a killed run cannot be deleted: " + error.message());
}

DirLock::DirLock(const std::string& dir) {
  const std::string path = message(dir, "/", lock_name);
  descriptor_ = data::open_again(path, O_RDWR | O_CREAT);
  if (descriptor_ < 0) refuse(dir, "nothing can be written there", errno);
  try {
    take_lock(descriptor_, dir);
    const std::string text = message("process ", ::getpid(), " on ", host(), "\n");
    if (::ftruncate(descriptor_, 0) != 0) data::fail_write(path, errno);
    data::write_all(descriptor_, path, std::as_bytes(std::span(text)));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

DirLock::~DirLock() { ::close(descriptor_); }

void DirLock::check(const std::string& dir) {
  const int descriptor = data::open_again(message(dir, "/", lock_name), O_RDONLY);
  if (descriptor < 0) return;
  try {
    take_lock(descriptor, dir);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

RunDir RunDir::open(const std::string& given) {
  const RunDir dir(without_slash(given));
  if (!exists(dir.path("config.json"))) {
    fail(ErrorKind::model, "E-RUN-DIR",
         message(dir.path_, exists(dir.path_) ? " holds no config.json" : " is not there",
                 ": it must be the DIR of an earlier mixtape train CONFIG -s DIR"));
  }
  if (exists(dir.path("model.safetensors"))) {
    fail(ErrorKind::model, "E-RUN-DIR",
         message(dir.path_, " is a model's directory (an export, or best/ itself), not that of a run: give the DIR of ",
                 "mixtape train CONFIG -s DIR. As a start for training it is a model.pretrained"));
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
  if (::mkdir(temporary.c_str(), 0777) != 0) data::fail_write(temporary, errno);
}

RunDir::Replacement::~Replacement() {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
}

void RunDir::Replacement::commit() const {
  data::sync_directory(temporary);
  const int error = data::replace_directory(temporary, target);  // the destructor removes the old one
  if (error != 0) refuse(target, "cannot be replaced", error);
  data::sync_directory(parent_of(target));
}

}  // namespace mixtape::trainer

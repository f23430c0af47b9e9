// A library for LD_PRELOAD that plays a bad day: it counts the file system calls below one path and lets the k-th of
// them fail, lie or be the last. Nothing in the program knows of it.
//
//   FAULT_ROOT   only calls on this path and below it count
//   FAULT_OPS    which calls count, by name: open write fsync close rename mkdir unlink truncate read (comma between)
//   FAULT_AT     k, from 1; without it nothing happens but counting
//   FAULT_DO     kill | enospc | enospc_on (from the k-th on) | eio | eintr | short | lie (half is written, all is
//                claimed) | skip (success is claimed, nothing is done) | sigN | sigNxM (raise signal N, M times)
//   FAULT_COUNT  a file that gets the number of calls counted, at exit
//   FAULT_JOURNAL  a file that gets every changing call with its data, for torn.py
//   FAULT_NEW    the N-th allocation since main() fails; FAULT_NEW_ON: all from the N-th on
//   FAULT_SLEEP  "0": sleeping takes no time
//   FAULT_PLAIN_RENAME  "1": a file system whose renames know no flags (renameat2 fails with EINVAL)
//   FAULT_EXIT   signal N is raised when the program is done and the process ends
//   FAULT_CLOCK  "N:S": from the N-th look at a clock on it is S seconds later
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MOST_FDS 1024

static const char *root, *ops, *action, *count_path;
static long at, counted, allocations, fail_new, fail_new_on, exit_signal, clock_at, clock_looks, clock_jump;
static int armed, journal_fd = -1, no_sleep, plain_rename;
static char watched[MOST_FDS];  // descriptors of files below the root
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

__attribute__((constructor)) static void begin(void) {
  root = getenv("FAULT_ROOT");
  ops = getenv("FAULT_OPS");
  action = getenv("FAULT_DO");
  count_path = getenv("FAULT_COUNT");
  at = number("FAULT_AT");
  fail_new = number("FAULT_NEW");
  fail_new_on = number("FAULT_NEW_ON");
  exit_signal = number("FAULT_EXIT");
  no_sleep = getenv("FAULT_SLEEP") != NULL;
  plain_rename = getenv("FAULT_PLAIN_RENAME") != NULL;
  const char* jump = getenv("FAULT_CLOCK");
  if (jump != NULL) sscanf(jump, "%ld:%ld", &clock_at, &clock_jump);
  const char* journal = getenv("FAULT_JOURNAL");
  if (journal != NULL)
    journal_fd = (int)syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

__attribute__((destructor)) static void finish(void) {
  if (exit_signal > 0) kill(getpid(), (int)exit_signal);
  if (count_path == NULL) return;
  char text[64];
  const int length = snprintf(text, sizeof text, "%ld %ld\n", counted, allocations);
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, count_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0) syscall(SYS_write, fd, text, length), syscall(SYS_close, fd);
}

// The path that a call means, absolute but not resolved any further.
static void absolute(int dir, const char* path, char* out) {
  if (path[0] == '/') {
    snprintf(out, PATH_MAX, "%s", path);
    return;
  }
  char base[PATH_MAX] = "", link[64];
  if (dir == AT_FDCWD) {
    if (getcwd(base, sizeof base) == NULL) base[0] = 0;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    const ssize_t got = readlink(link, base, sizeof base - 1);
    base[got > 0 ? got : 0] = 0;
  }
  const int wrote = snprintf(out, PATH_MAX, "%s/%s", base, path);
  if (wrote >= PATH_MAX) out[0] = 0;
}

static int below(const char* path) {
  const size_t length = root == NULL ? 0 : strlen(root);
  return length > 0 && strncmp(path, root, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static int is_watched(int fd) { return fd >= 0 && fd < MOST_FDS && watched[fd]; }

// A line of the journal, then `size` bytes of data.
static void note(const char* line, const void* data, size_t size) {
  if (journal_fd < 0) return;
  pthread_mutex_lock(&lock);
  syscall(SYS_write, journal_fd, line, strlen(line));
  while (size > 0) {
    const ssize_t wrote = syscall(SYS_write, journal_fd, data, size);
    if (wrote <= 0) break;
    data = (const char*)data + wrote;
    size -= (size_t)wrote;
  }
  pthread_mutex_unlock(&lock);
}

static void note_paths(const char* what, const char* a, const char* b) {
  char line[2 * PATH_MAX + 64];
  snprintf(line, sizeof line, "%s\t%s\t%s\n", what, a, b);
  note(line, NULL, 0);
}

static void note_fd(const char* what, int fd, long long offset, long long size, const void* data) {
  char line[128];
  snprintf(line, sizeof line, "%s\t%d\t%lld\t%lld\n", what, fd, offset, size);
  note(line, data, data == NULL ? 0 : (size_t)size);
}

enum verdict { GO, FAIL, SHORT, LIE, SKIP };

static int is_counted(const char* op) {
  if (ops == NULL) return strcmp(op, "read") != 0;
  const size_t length = strlen(op);
  for (const char* word = ops; word != NULL; word = strchr(word, ',')) {
    if (*word == ',') ++word;
    if (strncmp(word, op, length) == 0 && (word[length] == ',' || word[length] == 0)) return 1;
  }
  return 0;
}

static void raise_signals(const char* what) {
  int which = 0, times = 1;
  sscanf(what, "sig%dx%d", &which, &times);
  for (int i = 0; i < times; ++i) kill(getpid(), which);
}

// Counts a call and says what becomes of it; errno is set for FAIL.
static enum verdict judge(const char* op) {
  if (!is_counted(op)) return GO;
  const long mine = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
  if (at == 0 || action == NULL || mine < at) return GO;
  if (strcmp(action, "enospc_on") == 0) {
    const int takes_room = strcmp(op, "write") == 0 || strcmp(op, "open") == 0 || strcmp(op, "mkdir") == 0;
    errno = ENOSPC;
    return takes_room ? FAIL : GO;
  }
  if (mine != at) return GO;
  if (strcmp(action, "kill") == 0) kill(getpid(), SIGKILL), pause();
  if (strncmp(action, "sig", 3) == 0) raise_signals(action);
  if (strcmp(action, "short") == 0) return SHORT;
  if (strcmp(action, "lie") == 0) return LIE;
  if (strcmp(action, "skip") == 0) return SKIP;
  if (strcmp(action, "enospc") == 0) return errno = ENOSPC, FAIL;
  if (strcmp(action, "eio") == 0) return errno = EIO, FAIL;
  if (strcmp(action, "eintr") == 0) return errno = EINTR, FAIL;
  return GO;
}

static int open_below(int dir, const char* path, int flags, mode_t mode) {
  char full[PATH_MAX];
  absolute(dir, path, full);
  const int mine = below(full);
  if (mine && judge((flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0 ? "open" : "read") == FAIL) return -1;
  const int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
  if (fd >= 0 && fd < MOST_FDS) watched[fd] = (char)mine;
  if (fd >= 0 && mine && journal_fd >= 0) {
    char line[PATH_MAX + 64];
    snprintf(line, sizeof line, "open\t%d\t%s\t%d\t%d\n", fd, full, (flags & O_CREAT) != 0, (flags & O_TRUNC) != 0);
    note(line, NULL, 0);
  }
  return fd;
}

#define WITH_MODE(flags)             \
  mode_t mode = 0;                   \
  if (((flags) & O_CREAT) != 0) {    \
    va_list rest;                    \
    va_start(rest, flags);           \
    mode = va_arg(rest, mode_t);     \
    va_end(rest);                    \
  }

int open(const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_below(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_below(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int dir, const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_below(dir, path, flags, mode);
}
int openat64(int dir, const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_below(dir, path, flags | O_LARGEFILE, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  if (!is_watched(fd)) return syscall(SYS_write, fd, data, size);
  const enum verdict verdict = judge("write");
  if (verdict == FAIL) return -1;
  if (verdict == SKIP) return (ssize_t)size;
  const size_t part = (verdict == SHORT || verdict == LIE) && size > 1 ? size / 2 : size;
  const long long append = (syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND) != 0;
  const ssize_t wrote = syscall(SYS_write, fd, data, part);
  if (wrote > 0 && journal_fd >= 0) {
    const long long end = (long long)syscall(SYS_lseek, fd, 0, SEEK_CUR);
    note_fd(append ? "append" : "write", fd, end - wrote, wrote, data);
  }
  return verdict == LIE ? (ssize_t)size : wrote;
}

static ssize_t read_below(int fd, void* data, size_t size, off_t offset, int positioned) {
  size_t part = size;
  if (is_watched(fd)) {
    const enum verdict verdict = judge("read");
    if (verdict == FAIL) return -1;
    if (verdict == SHORT && size > 1) part = size / 2;
  }
  return positioned ? syscall(SYS_pread64, fd, data, part, offset) : syscall(SYS_read, fd, data, part);
}
ssize_t read(int fd, void* data, size_t size) { return read_below(fd, data, size, 0, 0); }
ssize_t pread(int fd, void* data, size_t size, off_t offset) { return read_below(fd, data, size, offset, 1); }
ssize_t pread64(int fd, void* data, size_t size, off_t offset) { return read_below(fd, data, size, offset, 1); }

int fsync(int fd) {
  if (is_watched(fd)) {
    const enum verdict verdict = judge("fsync");
    if (verdict == FAIL) return -1;
    if (verdict == SKIP) return 0;
    note_fd("fsync", fd, 0, 0, NULL);
  }
  return (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t size) {
  if (is_watched(fd)) {
    if (judge("truncate") == FAIL) return -1;
    note_fd("truncate", fd, 0, size, NULL);
  }
  return (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int close(int fd) {
  if (is_watched(fd)) {
    const int failed = judge("close") == FAIL;
    const int error = errno;
    watched[fd] = 0;
    note_fd("close", fd, 0, 0, NULL);
    const int closed = (int)syscall(SYS_close, fd);
    if (failed) errno = error;
    return failed ? -1 : closed;
  }
  return (int)syscall(SYS_close, fd);
}

static int rename_below(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  char a[PATH_MAX], b[PATH_MAX];
  absolute(from_dir, from, a);
  absolute(to_dir, to, b);
  const int mine = below(a) || below(b);
  if (mine) {
    const enum verdict verdict = judge("rename");
    if (verdict == FAIL) return -1;
    if (verdict == SKIP) return 0;
  }
  const int done = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
  if (done == 0 && mine) note_paths((flags & 2U) != 0 ? "exchange" : "rename", a, b);
  return done;
}
int rename(const char* from, const char* to) { return rename_below(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char* from, int b, const char* to) { return rename_below(a, from, b, to, 0); }
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  if (plain_rename && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return rename_below(a, from, b, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  char full[PATH_MAX];
  absolute(AT_FDCWD, path, full);
  const int mine = below(full);
  if (mine && judge("mkdir") == FAIL) return -1;
  const int done = (int)syscall(SYS_mkdir, path, mode);
  if (done == 0 && mine) note_paths("mkdir", full, "");
  return done;
}

static int unlink_below(int dir, const char* path, int flags) {
  char full[PATH_MAX];
  absolute(dir, path, full);
  const int mine = below(full);
  if (mine && judge("unlink") == FAIL) return -1;
  const int done = (int)syscall(SYS_unlinkat, dir, path, flags);
  if (done == 0 && mine) note_paths("unlink", full, "");
  return done;
}
int unlink(const char* path) { return unlink_below(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlink_below(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  const int done = unlink_below(AT_FDCWD, path, 0);
  return done != 0 && errno == EISDIR ? unlink_below(AT_FDCWD, path, AT_REMOVEDIR) : done;
}
int unlinkat(int dir, const char* path, int flags) { return unlink_below(dir, path, flags); }

// Allocation: operator new throws as the real one does, the aligned ones that tensors use return null.

extern void _ZSt17__throw_bad_allocv(void);

static int allocation_fails(void) {
  if (!armed) return 0;
  const long mine = __atomic_add_fetch(&allocations, 1, __ATOMIC_SEQ_CST);
  return (fail_new > 0 && mine == fail_new) || (fail_new_on > 0 && mine >= fail_new_on);
}

void* _Znwm(size_t size) {
  void* block = allocation_fails() ? NULL : malloc(size == 0 ? 1 : size);
  if (block == NULL) _ZSt17__throw_bad_allocv();
  return block;
}
void* _Znam(size_t size) { return _Znwm(size); }

void* aligned_alloc(size_t alignment, size_t size) {
  void* block = NULL;
  if (allocation_fails()) return NULL;
  return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static int (*real_main)(int, char**, char**);
static int armed_main(int count, char** words, char** environment) {
  armed = 1;
  return real_main(count, words, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int count, char** words, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  int (*next)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  *(void**)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main;
  return next(armed_main, count, words, init, fini, rtld_fini, stack_end);
}

// Time.

int clock_gettime(clockid_t clock, struct timespec* out) {
  const int done = (int)syscall(SYS_clock_gettime, clock, out);
  if (done == 0 && clock_at > 0 && __atomic_add_fetch(&clock_looks, 1, __ATOMIC_SEQ_CST) >= clock_at)
    out->tv_sec += clock_jump;
  return done;
}

int nanosleep(const struct timespec* wanted, struct timespec* left) {
  return no_sleep ? 0 : (int)syscall(SYS_nanosleep, wanted, left);
}
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* wanted, struct timespec* left) {
  return no_sleep ? 0 : (int)syscall(SYS_clock_nanosleep, clock, flags, wanted, left);
}

#include "tests/simt/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "tests/simt/runner.h"

#if defined(MIXTAPE_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace mixtape::simt {
namespace {

struct Allocation {
  size_t bytes, pages;  // asked for; what it occupies, in bytes
  int number;
};

// Allocations are pages, with a page between that nobody may touch. Addresses are used again only when nothing lives.
class Arena {
 public:
  static Arena& of_thread() {
    static thread_local Arena arena;
    return arena;
  }

  Arena() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* room = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<char*>(room);
  }
  ~Arena() {
    unpoison(start_, arena_bytes);
    munmap(start_, arena_bytes);
  }

  void* allocate(size_t bytes) {
    const size_t pages = (bytes + page_ - 1) / page_ * page_ + (bytes == 0 ? page_ : 0);
    if (used_ + pages + page_ > arena_bytes) return nullptr;
    char* block = start_ + used_ + page_;
    used_ += page_ + pages;
    mprotect(block, pages, PROT_READ | PROT_WRITE);
    unpoison(block, pages);
    std::memset(block, poison, pages);
#if defined(MIXTAPE_SIMT_ASAN)
    __asan_poison_memory_region(block + bytes, pages - bytes);
#endif
    live_[block] = {bytes, pages, ++given_};
    if (hidden_) mprotect(block, pages, PROT_NONE);
    return block;
  }
  bool free(void* pointer) {
    const auto found = live_.find(static_cast<char*>(pointer));
    if (found == live_.end()) return false;
    mprotect(found->first, found->second.pages, PROT_NONE);
    live_.erase(found);
    if (live_.empty()) used_ = 0;
    return true;
  }
  bool covers(const void* from, size_t bytes) const {
    const char* at = static_cast<const char*>(from);
    const auto next = live_.upper_bound(const_cast<char*>(at));
    if (next == live_.begin()) return false;
    const auto& [block, allocation] = *std::prev(next);
    return at + bytes <= block + allocation.bytes;
  }
  bool contains(const void* address) const { return address >= start_ && address < start_ + arena_bytes; }

  void enter() {
    if (depth_++ == 0 && hidden_) hide(false);
  }
  void leave() {
    if (--depth_ == 0 && options().guard) hide(true);
  }

  // In words, for the handler.
  void explain(const void* address, bool writes, char* text, size_t size) const {
    const char *at = static_cast<const char*>(address), *verb = writes ? "write" : "read";
    for (const auto& [block, allocation] : live_) {
      if (at < block - page_ || at >= block + allocation.pages + page_) continue;
      if (at >= block && at < block + allocation.bytes && !in_kernel()) {
        std::snprintf(text, size,
                      "simt: host %s of device memory: byte %td of allocation %d (%zu bytes); the host reaches it by "
                      "copies only\n",
                      verb, at - block, allocation.number, allocation.bytes);
      } else {
        std::snprintf(text, size, "simt: out of bounds: a %s at byte %td of allocation %d, which has %zu bytes\n", verb,
                      at - block, allocation.number, allocation.bytes);
      }
      return;
    }
    std::snprintf(text, size, "simt: %s of device memory that is not allocated, or free again\n", verb);
  }

 private:
  void hide(bool on) {
    hidden_ = on;
    for (const auto& [block, allocation] : live_) {
      mprotect(block, allocation.pages, on ? PROT_NONE : PROT_READ | PROT_WRITE);
    }
  }
  static void unpoison([[maybe_unused]] char* from, [[maybe_unused]] size_t bytes) {
#if defined(MIXTAPE_SIMT_ASAN)
    __asan_unpoison_memory_region(from, bytes);
#endif
  }

  size_t page_, used_ = 0;
  char* start_ = nullptr;
  std::map<char*, Allocation> live_;
  int given_ = 0, depth_ = 0;
  bool hidden_ = false;
};

void explain_fault(int, siginfo_t* info, void* context) {
  char text[300] = "simt: segmentation fault outside device memory\n";
  bool writes = false;
#if defined(__x86_64__)
  writes = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  (void)context;
#endif
  if (Arena::of_thread().contains(info->si_addr)) {
    Arena::of_thread().explain(info->si_addr, writes, text, sizeof text);
  } else if (const std::string thread = overflown_thread(info->si_addr); !thread.empty()) {
    std::snprintf(text, sizeof text, "simt: the stack of %s is full: a kernel keeps too much there\n", thread.c_str());
  }
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) std::abort();
  _exit(fault_status);
}

}  // namespace

void* device_allocate(size_t bytes) { return Arena::of_thread().allocate(bytes); }
bool device_free(void* pointer) { return Arena::of_thread().free(pointer); }
bool on_device(const void* from, size_t bytes) { return Arena::of_thread().covers(from, bytes); }
bool in_arena(const void* address) { return Arena::of_thread().contains(address); }

DeviceAccess::DeviceAccess() { Arena::of_thread().enter(); }
DeviceAccess::~DeviceAccess() { Arena::of_thread().leave(); }

void explain_faults() {
  static char room[64 * 1024];  // the stack that overflowed is no place for the handler
  stack_t stack{};
  stack.ss_sp = room;
  stack.ss_size = sizeof room;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = explain_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace mixtape::simt

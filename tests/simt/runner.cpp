#include "tests/simt/runner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <utility>

#include "tests/simt/fiber.h"
#include "tests/simt/include/cuda_runtime.h"

#if defined(MIXTAPE_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim{}, gridDim{};

namespace mixtape::simt {
namespace {

enum class State : uint8_t { ready, at_barrier, in_warp, ended };

/// Where a thread waits.
struct Wait {
  const char* what = nullptr;
  const char* file = nullptr;
  int line = 0;
  uint32_t mask = 0;
  friend bool operator==(const Wait& a, const Wait& b) {
    return a.what == b.what && a.line == b.line && a.mask == b.mask &&
           (a.file == b.file || !std::strcmp(a.file, b.file));
  }
};

struct Thread {
  explicit Thread(int index) : fiber(index), number(index) {}
  Fiber fiber;
  int number;
  State state = State::ended;
  Index at;
  Wait wait;
  uint64_t value = 0, result = 0;  // of an exchange in the warp
  uint64_t* values = nullptr;      // of all lanes, if this one wants them
  int source = 0;
  unsigned barriers = 0;  // of the block, so far
};

/// What tells the race detector of the barriers of one group: two addresses in turn. With one, a thread that is late at
/// a barrier would learn from the next one, at which others have arrived already, and races between would be hidden.
struct Turns {
  char address[2] = {};
  unsigned passed[32] = {};  // by each lane
};

/// A buffer of the size that a launch asks for; under ASan a byte beyond it is an error.
class SharedRoom {
 public:
  SharedRoom() : room_(new (std::align_val_t{1024}) unsigned char[most_shared_bytes + 1024]) {}
  ~SharedRoom() {
    unpoison();
    operator delete[](room_, std::align_val_t{1024});
  }
  void reset(size_t bytes) {
    unpoison();
    std::memset(room_, poison, bytes);
#if defined(MIXTAPE_SIMT_ASAN)
    __asan_poison_memory_region(room_ + bytes, most_shared_bytes + 1024 - bytes);
#endif
  }
  void* data() const { return room_; }

 private:
  void unpoison() {
#if defined(MIXTAPE_SIMT_ASAN)
    __asan_unpoison_memory_region(room_, most_shared_bytes + 1024);
#endif
  }
  unsigned char* room_;
};

std::string place(const Wait& wait) {
  const std::string file = wait.file;
  return std::string(wait.what) + " at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(wait.line);
}

// Runs one block after the other on the same fibers.
class Runner {
 public:
  void run(const Grid& grid, void (*body)(const void*), const void* closure);

  void wait(State state, const Wait& where, void* sync) {
    Thread& thread = *current_;
    thread.state = state;
    thread.wait = where;
    if (sync) happens_before(sync);
    thread.fiber.suspend();
    if (sync) happens_after(sync);
  }
  Thread& current() { return *current_; }
  /// In a thread that does what it must not: ends the whole launch.
  [[noreturn]] void fail(const std::string& what) {
    failure_ = name(*current_) + " " + what;
    current_->fiber.suspend();
    std::abort();  // nobody comes back
  }
  bool running() const { return current_ != nullptr; }
  void* warp_sync(uint32_t mask) {
    const unsigned number = static_cast<unsigned>(current_->number);
    Turns& turns = warp_syncs_[{number / warp_size, mask}];
    return &turns.address[turns.passed[number % warp_size]++ % 2];
  }
  void* block_sync() { return &block_syncs_[current_->barriers++ % 2]; }
  void* shared() { return shared_.data(); }
  std::string overflown(const void* address) const {
    for (const auto& thread : threads_) {
      if (thread->fiber.guards(address)) return name(*thread);
    }
    return {};
  }
  Counts counts;

 private:
  static void live(void* thread);
  void run_block(int count);
  void release(int count);
  bool release_warps(int count);
  void complete(int first, int count, int one);
  [[noreturn]] void deadlock(int count);
  [[noreturn]] void abandon(const std::string& why);
  void order(std::vector<int>& places);
  std::string name(const Thread& thread) const {
    return "thread " + std::to_string(thread.number) + " of block (" + std::to_string(block_.x) + ", " +
           std::to_string(block_.y) + ", " + std::to_string(block_.z) + ")";
  }
  std::string doing(const Thread& thread) const {
    return thread.state == State::ended ? "has ended" : "waits in " + place(thread.wait);
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  SharedRoom shared_;
  Thread* current_ = nullptr;
  Index block_;
  void (*body_)(const void*) = nullptr;
  const void* closure_ = nullptr;
  std::string failure_;
  std::mt19937_64 random_;
  // Addresses for the race detector. A thread that ends tells the next block, not one that starts after it.
  char block_syncs_[2] = {}, start_sync_ = 0, end_sync_ = 0;
  std::map<std::pair<unsigned, uint32_t>, Turns> warp_syncs_;  // by warp and mask
};

Runner& runner() {
  static thread_local Runner instance;
  return instance;
}

// What every fiber does: one thread of each block.
void Runner::live(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Runner& self = runner();
  for (;;) {
    happens_after(&self.start_sync_);
    self.body_(self.closure_);
    happens_before(&self.end_sync_);
    thread.state = State::ended;
    thread.fiber.suspend();
  }
}

void Runner::order(std::vector<int>& places) {
  std::iota(places.begin(), places.end(), 0);
  if (options().order == Order::reverse) std::reverse(places.begin(), places.end());
  if (options().order == Order::shuffled) std::shuffle(places.begin(), places.end(), random_);
}

void Runner::run(const Grid& grid, void (*body)(const void*), const void* closure) {
  if (current_) throw Error("a kernel launches a kernel");
  body_ = body;
  closure_ = closure;
  random_.seed(options().seed);
  const int count = static_cast<int>(grid.threads.x * grid.threads.y * grid.threads.z);
  while (static_cast<int>(threads_.size()) < count) {
    threads_.push_back(std::make_unique<Thread>(static_cast<int>(threads_.size())));
    threads_.back()->fiber.start(live, threads_.back().get());
  }
  for (int i = 0; i < count; ++i) {
    const unsigned n = static_cast<unsigned>(i), x = grid.threads.x, y = grid.threads.y;
    threads_[static_cast<size_t>(i)]->at = {n % x, n / x % y, n / x / y};
  }
  blockDim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
  gridDim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
  std::vector<int> blocks(size_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z);
  order(blocks);
  ++counts.launches;
  for (const int b : blocks) {
    const unsigned n = static_cast<unsigned>(b), x = grid.blocks.x, y = grid.blocks.y;
    block_ = {n % x, n / x % y, n / x / y};
    shared_.reset(grid.shared_bytes);
    happens_before(&start_sync_);
    run_block(count);
    happens_after(&end_sync_);
  }
}

void Runner::run_block(int count) {
  ++counts.blocks;
  counts.threads += count;
  std::vector<int> places(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads_[static_cast<size_t>(i)]->state = State::ready;
    threads_[static_cast<size_t>(i)]->barriers = 0;
  }
  warp_syncs_.clear();
  blockIdx = {block_.x, block_.y, block_.z};
  for (bool all_ended = false; !all_ended;) {
    order(places);
    for (const int i : places) {
      Thread& thread = *threads_[static_cast<size_t>(i)];
      if (thread.state != State::ready) continue;
      current_ = &thread;
      threadIdx = {thread.at.x, thread.at.y, thread.at.z};
      ++counts.resumes;
      thread.fiber.resume();
      current_ = nullptr;
      if (!failure_.empty()) abandon(std::exchange(failure_, {}));
    }
    all_ended = std::all_of(threads_.begin(), threads_.begin() + count,
                            [](const auto& thread) { return thread->state == State::ended; });
    if (!all_ended) release(count);
  }
}

// Nobody can go on: opens what is complete.
void Runner::release(int count) {
  if (release_warps(count)) return;
  const auto first = threads_.begin(), last = first + count;
  const bool all = std::all_of(first, last, [&](const auto& thread) {
    return thread->state == State::at_barrier && thread->wait == (*first)->wait;
  });
  if (!all) deadlock(count);
  std::for_each(first, last, [](const auto& thread) { thread->state = State::ready; });
}

// Lanes whose whole mask waits at the same place.
bool Runner::release_warps(int count) {
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.state != State::in_warp) continue;
    const int first = i / static_cast<int>(warp_size) * static_cast<int>(warp_size);
    bool here = true;
    for (int lane = 0; lane < static_cast<int>(warp_size); ++lane) {
      if (!(thread.wait.mask >> lane & 1u)) continue;
      const bool exists = first + lane < count;
      here = here && exists && threads_[static_cast<size_t>(first + lane)]->state == State::in_warp &&
             threads_[static_cast<size_t>(first + lane)]->wait == thread.wait;
    }
    if (!here) continue;
    complete(first, count, i);
    any = true;
  }
  return any;
}

// Gives the lanes of one mask what they asked for, and lets them go on.
void Runner::complete(int first, int count, int one) {
  const Wait where = threads_[static_cast<size_t>(one)]->wait;
  uint64_t ballot = 0;
  const auto each = [&](const auto& f) {
    for (int lane = 0; lane < static_cast<int>(warp_size) && first + lane < count; ++lane) {
      if (where.mask >> lane & 1u) f(lane, *threads_[static_cast<size_t>(first + lane)]);
    }
  };
  each([&](int lane, const Thread& thread) { ballot |= (thread.value & 1u) << lane; });
  each([&](int, Thread& thread) {
    if (thread.values) each([&](int lane, const Thread& other) { thread.values[lane] = other.value; });
    if (thread.source < 0) {
      thread.result = ballot;
    } else if (where.mask >> thread.source & 1u) {
      thread.result = threads_[static_cast<size_t>(first + thread.source)]->value;
    } else {
      abandon(name(thread) + " reads lane " + std::to_string(thread.source) + ", which its mask does not name, in " +
              place(where));
    }
  });
  each([](int, Thread& thread) { thread.state = State::ready; });
}

// Names the first thread that is not where most of them wait.
void Runner::deadlock(int count) {
  int most = 0, crowd = 0;
  for (int i = 0; i < count; ++i) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.state == State::ended) continue;
    int same = 0;
    for (int j = 0; j < count; ++j) {
      const Thread& other = *threads_[static_cast<size_t>(j)];
      same += other.state == thread.state && other.wait == thread.wait;
    }
    if (same > most) most = same, crowd = i;
  }
  const Thread& waiting = *threads_[static_cast<size_t>(crowd)];
  const Thread* odd = &waiting;
  for (int i = count; i-- > 0;) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.state != waiting.state || !(thread.wait == waiting.wait)) odd = &thread;
  }
  std::string text = "deadlock: " + name(*odd) + " " + doing(*odd);
  if (odd != &waiting) {
    text += ", while " + std::to_string(most) + (most == 1 ? " waits in " : " wait in ") + place(waiting.wait);
  } else {
    text += " for lanes that its block of " + std::to_string(count) + " threads does not have";
  }
  abandon(text);
}

// Nobody will come back to where the threads are.
void Runner::abandon(const std::string& why) {
  for (auto& thread : threads_) {
    thread->state = State::ended;
    thread->fiber.start(live, thread.get());
  }
  throw Error(why);
}

}  // namespace

Options& options() {
  static thread_local Options current;
  return current;
}
const Counts& counts() { return runner().counts; }

void run_grid(const Grid& grid, void (*body)(const void*), const void* closure) { runner().run(grid, body, closure); }

void barrier(const char* file, int line) {
  runner().wait(State::at_barrier, {"__syncthreads", file, line, 0}, runner().block_sync());
}

namespace {
// Shuffles exchange registers and order no memory: only __syncwarp tells the race detector anything.
uint64_t exchange(const Wait& where, uint64_t value, int source, void* sync, uint64_t* values = nullptr) {
  Thread& thread = runner().current();
  if (!(where.mask >> lane() & 1u)) runner().fail("is not in its own mask, in " + place(where));
  thread.value = value;
  thread.source = source;
  thread.values = values;
  runner().wait(State::in_warp, where, sync);
  return thread.result;
}
}  // namespace

void warp_barrier(uint32_t mask, const char* file, int line) {
  exchange({"__syncwarp", file, line, mask}, 0, -1, runner().warp_sync(mask));
}
uint64_t warp_exchange(uint32_t mask, uint64_t value, int source, const char* file, int line) {
  return exchange({"__shfl_sync", file, line, mask}, value, source, nullptr);
}
void warp_values(uint64_t value, uint64_t (&all)[32], const char* file, int line) {
  exchange({"__shfl_sync", file, line, 0xffffffffu}, value, -1, nullptr, all);
}
uint32_t warp_ballot(uint32_t mask, bool predicate, const char* file, int line) {
  return static_cast<uint32_t>(exchange({"__ballot_sync", file, line, mask}, predicate, -1, nullptr));
}
int lane() { return runner().current().number % static_cast<int>(warp_size); }
void* dynamic_shared() { return runner().shared(); }
std::string overflown_thread(const void* address) { return runner().overflown(address); }
bool in_kernel() { return runner().running(); }

}  // namespace mixtape::simt

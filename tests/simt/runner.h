// The device-on-CPU runner: what a launch does when there is no GPU. Every CUDA thread is a fiber; one OS thread runs
// the fibers of a block, block after block, in an order that can be chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace mixtape::simt {

/// What a kernel does that no GPU may be asked to do; the message says which thread, where and why.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// In which order the blocks of a grid run, and the threads of a block between two barriers. A kernel is right only if
/// it gives the same results in all of them.
enum class Order : uint8_t { forward, reverse, shuffled };

struct Options {
  Order order = Order::forward;
  uint64_t seed = 1;      ///< of the shuffled order
  bool deferred = false;  ///< work waits in its stream until a call that must wait for it
  bool ahead = false;     ///< deferred, but streams other than the standard one run as far as events let them
  bool guard = false;     ///< the host cannot touch device memory but by copies
};
/// Of this OS thread. Both are mixed freely; set them while no work waits.
Options& options();
/// Options for the time of a scope.
class OptionsGuard {
 public:
  explicit OptionsGuard(const Options& wanted) : before_(options()) { options() = wanted; }
  ~OptionsGuard() { options() = before_; }
  OptionsGuard(const OptionsGuard&) = delete;
  OptionsGuard& operator=(const OptionsGuard&) = delete;

 private:
  Options before_;
};

/// How often things happened since the start.
struct Counts {
  int64_t launches = 0, blocks = 0, threads = 0, resumes = 0;
};
const Counts& counts();

struct Grid {
  Index blocks, threads;
  size_t shared_bytes = 0;
};

/// Runs body(closure) once for each thread of each block. Throws Error for a deadlock.
void run_grid(const Grid& grid, void (*body)(const void* closure), const void* closure);

// ---- what a thread can ask for; `file` and `line` are the place in the kernel ----

void barrier(const char* file, int line);
void warp_barrier(uint32_t mask, const char* file, int line);
/// `value` of lane `source` of those in `mask`, who all must come here.
uint64_t warp_exchange(uint32_t mask, uint64_t value, int source, const char* file, int line);
/// The values of all lanes of a whole warp, as 32 shuffles at once.
void warp_values(uint64_t value, uint64_t (&all)[32], const char* file, int line);
/// Bit i: lane i came with `predicate`.
uint32_t warp_ballot(uint32_t mask, bool predicate, const char* file, int line);
int lane();
/// The dynamic shared memory of the block: NaN in every float type until it is written.
void* dynamic_shared();

/// The name of the thread whose stack's guard page this is, or an empty string: for the handler of SIGSEGV.
std::string overflown_thread(const void* address);
/// Whether a kernel runs now.
bool in_kernel();

inline constexpr unsigned warp_size = 32;
inline constexpr size_t most_shared_bytes = 227 * 1024;  ///< of one block, on compute capability 9.0
inline constexpr unsigned char poison = 0xff;            ///< NaN in f32, f64, f16 and bf16; -1 in integers

}  // namespace mixtape::simt

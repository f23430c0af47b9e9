#include "tests/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(MIXTAPE_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(MIXTAPE_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) || defined(MIXTAPE_SIMT_UCONTEXT)
#define MIXTAPE_SIMT_SLOW_SWITCH
#include <ucontext.h>
#endif

#if !defined(MIXTAPE_SIMT_SLOW_SWITCH)
// Saves what a call must preserve on the stack that is left, and takes it from the one that is entered.
asm(R"(
  .text
  .globl mixtape_simt_switch
  .type mixtape_simt_switch, @function
mixtape_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size mixtape_simt_switch, .-mixtape_simt_switch
)");
extern "C" void mixtape_simt_switch(void** left, void* entered);
#endif

namespace mixtape::simt {

struct Fiber::Context {
  Entry entry = nullptr;
  void* argument = nullptr;
#if defined(MIXTAPE_SIMT_SLOW_SWITCH)
  ucontext_t own, caller;
#else
  void *own = nullptr, *caller = nullptr;  // stack pointers
#endif
#if defined(MIXTAPE_SIMT_TSAN)
  void *tsan = nullptr, *tsan_caller = nullptr;
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  const void* caller_stack = nullptr;
  size_t caller_bytes = 0;
#endif
};

namespace {

thread_local Fiber::Context* entering = nullptr;

[[noreturn]] void trampoline() {
  Fiber::Context* context = entering;
#if defined(MIXTAPE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &context->caller_stack, &context->caller_bytes);
#endif
  context->entry(context->argument);
  std::abort();  // entries never return
}

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Fiber::Fiber(int number) : context_(new Context), coloured_(static_cast<size_t>(number % 61) * 64) {
  void* room = mmap(nullptr, stack_bytes + page_bytes(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  low_ = static_cast<char*>(room);
  mprotect(low_, page_bytes(), PROT_NONE);
}

Fiber::~Fiber() {
#if defined(MIXTAPE_SIMT_TSAN)
  if (context_->tsan) __tsan_destroy_fiber(context_->tsan);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  __asan_unpoison_memory_region(low_, stack_bytes + page_bytes());
#endif
  munmap(low_, stack_bytes + page_bytes());
  delete context_;
}

void Fiber::start(Entry entry, void* argument) {
  context_->entry = entry;
  context_->argument = argument;
#if defined(MIXTAPE_SIMT_TSAN)
  if (context_->tsan) __tsan_destroy_fiber(context_->tsan);
  context_->tsan = __tsan_create_fiber(0);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  __asan_unpoison_memory_region(low_ + page_bytes(), stack_bytes);
#endif
  char* top = low_ + page_bytes() + stack_bytes - coloured_;
#if defined(MIXTAPE_SIMT_SLOW_SWITCH)
  getcontext(&context_->own);
  context_->own.uc_stack.ss_sp = low_ + page_bytes();
  context_->own.uc_stack.ss_size = static_cast<size_t>(top - low_) - page_bytes();
  context_->own.uc_link = nullptr;
  makecontext(&context_->own, reinterpret_cast<void (*)()>(trampoline), 0);
#else
  // As if mixtape_simt_switch had been called at the beginning of the trampoline: six registers, then its address; the
  // word above is a return address that is never used, and keeps the alignment that the ABI wants.
  void** frame = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15}) - 8;
  for (int i = 0; i < 8; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(trampoline);
  context_->own = frame;
#endif
}

void Fiber::resume() {
  entering = context_;
#if defined(MIXTAPE_SIMT_TSAN)
  context_->tsan_caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(context_->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, low_ + page_bytes(), stack_bytes);
#endif
#if defined(MIXTAPE_SIMT_SLOW_SWITCH)
  swapcontext(&context_->caller, &context_->own);
#else
  mixtape_simt_switch(&context_->caller, context_->own);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(MIXTAPE_SIMT_TSAN)
  __tsan_switch_to_fiber(context_->tsan_caller, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, context_->caller_stack, context_->caller_bytes);
#endif
#if defined(MIXTAPE_SIMT_SLOW_SWITCH)
  swapcontext(&context_->own, &context_->caller);
#else
  mixtape_simt_switch(&context_->own, context_->caller);
#endif
#if defined(MIXTAPE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, &context_->caller_stack, &context_->caller_bytes);
#endif
}

bool Fiber::guards(const void* address) const {
  const char* at = static_cast<const char*>(address);
  return at >= low_ && at < low_ + page_bytes();
}

#if defined(MIXTAPE_SIMT_TSAN)
namespace {
std::atomic<int> races{0};
}
void happens_before(void* address) { __tsan_release(address); }
void happens_after(void* address) { __tsan_acquire(address); }
int races_reported() { return races; }
#else
void happens_before(void*) {}
void happens_after(void*) {}
int races_reported() { return 0; }
#endif

}  // namespace mixtape::simt

#if defined(MIXTAPE_SIMT_TSAN)
// The detector calls it once a report.
extern "C" void __tsan_on_report(void*) { ++mixtape::simt::races; }
#endif

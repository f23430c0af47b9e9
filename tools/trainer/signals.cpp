#include "tools/trainer/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace mixtape::trainer {
namespace {

// A handler can reach nothing but globals. These two, and only while a Signals lives.
std::atomic<int> stop_signal{0};
std::atomic<bool> save_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr std::array stopping = {SIGINT, SIGTERM, SIGUSR1};
constexpr std::array ignored = {SIGPIPE, SIGXFSZ};
constexpr size_t kCount = stopping.size() + ignored.size() + 1;
std::array<struct sigaction, kCount> before;

extern "C" void mixtape_on_stop(int signal) {
  int none = 0;
  if (!stop_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

extern "C" void mixtape_on_save(int) { save_wanted = true; }

void each_signal(void (*act)(int signal, void (*handler)(int), struct sigaction& old)) {
  size_t at = 0;
  for (const int signal : stopping) act(signal, mixtape_on_stop, before[at++]);
  for (const int signal : ignored) act(signal, SIG_IGN, before[at++]);
  act(SIGHUP, mixtape_on_save, before[at]);
}

}  // namespace

Signals::Signals() {
  stop_signal = 0;
  save_wanted = false;
  each_signal([](int signal, void (*handler)(int), struct sigaction& old) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // libraries that read files know nothing of EINTR
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, &old);
  });
}

Signals::~Signals() {
  each_signal([](int signal, void (*)(int), struct sigaction& old) { ::sigaction(signal, &old, nullptr); });
}

Signals& Signals::of_process() {
  static Signals* const signals = new Signals;  // never destroyed
  return *signals;
}

void Signals::poll() const {
  if (const int signal = stop_signal; signal != 0) throw Interrupted(signal);
}

bool Signals::take_save_request() { return save_wanted.exchange(false); }

const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "a signal";
  }
}

}  // namespace mixtape::trainer

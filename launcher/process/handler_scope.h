#pragma once
#include <signal.h>

#include <array>
#include <cstddef>
#include <initializer_list>

#include "base/no_copy.h"

namespace zero::launcher {

// A handler that no other one interrupts, and that interrupts no system call.
inline struct sigaction to_action(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  return action;
}

// Hold signals back in this process (SIG_BLOCK), or no longer (SIG_UNBLOCK).
inline void change_signal_mask(int how, std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) sigaddset(&signals, number);
  sigprocmask(how, &signals, nullptr);
}

// Another handler of some signals, as long as it lives, also of those that a caller has
// this process ignore.
template <size_t N>
class HandlerScope : NoCopy {
 public:
  HandlerScope(const std::array<int, N>& signals, void (*handler)(int))
      : signals_(signals) {
    const struct sigaction action = to_action(handler);
    for (size_t i = 0; i < N; ++i) sigaction(signals_[i], &action, &before_[i]);
  }
  ~HandlerScope() {
    for (size_t i = 0; i < N; ++i) sigaction(signals_[i], &before_[i], nullptr);
  }

 private:
  const std::array<int, N> signals_;
  std::array<struct sigaction, N> before_;
};

}  // namespace zero::launcher

#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace zero::launcher {

struct ChildOrder {
  std::vector<std::string> words;      // the first is looked for as a shell does
  std::vector<std::string> variables;  // all of its environment, "NAME=value"
  double seconds = 0;                  // that it may take
};

struct ChildOutcome {
  int code = 0;  // 127: it cannot be started; 128 + N: signal N has ended it
  bool is_late = false;
  std::string text;  // standard output and error, as they came
  double seconds = 0;
};

// Throw Error(kEnvironment): what was tried, and what the system says to that.
[[noreturn]] void throw_by_errno(const std::string& problem);

// Start a process in a group of its own, and wait for it.
//
// It is ended, in a second or two and with the ranks that it has started, when its time
// is over, and when this process is asked to stop (stop.h): then this throws
// Error(kInterrupted). When this process dies, it gets SIGTERM. Throws
// Error(kEnvironment) when there can be no process.
ChildOutcome run_child(ChildOrder order);

// In a child, between fork and exec: what all of them begin with, by system calls alone.
// A group of its own, no stop signals of ours, an empty standard input, and a signal for
// when `parent` dies.
void begin_child(pid_t parent, int signal_of_death);

// This program's own file.
std::string path_of_this_program();

// For the system's calls: they borrow the words, a null stands at their end.
std::vector<char*> pointers_to(std::vector<std::string>& words);

}  // namespace zero::launcher

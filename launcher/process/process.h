#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/no_copy.h"

// This process, and those that it starts.
namespace zero::launcher {

// The environment of this process, as "NAME=value".
std::vector<std::string> process_environment();

// The value of a variable in such a list; nothing: it is not set.
std::optional<std::string> variable(const std::vector<std::string>& environment,
                                    const std::string& name);

// The most bytes of this process that were resident at one time, less what others have of
// the memory that it shares with them, as far as that is known; 0: nobody tells.
int64_t peak_resident_bytes();

// This program's own file.
std::string path_of_this_program();

// Let this process and those that it starts have `least` files open at a time. Throws
// Error(kEnvironment) where the system allows fewer: some programs wait for ever then.
// `instead`: what needs fewer.
void allow_open_files(int64_t least, const std::string& instead);

constexpr int kCannotStart = 127, kSignalled = 128;  // as a shell says it

struct ChildOutcome {
  int code = 0;  // kCannotStart; kSignalled + N: signal N has ended it
  bool is_late = false;
  std::string text;  // standard output and error, as they came
  double seconds = 0;
};

// Throw Error(kEnvironment): what was tried, and what the system says to that.
[[noreturn]] void throw_by_errno(const std::string& problem);

// Another program: its words, of which the first is looked for as a shell does, and all
// of its environment, "NAME=value". It is in a process group of its own, without our stop
// signals and with an empty standard input, or ours. When this process dies, it gets a
// signal.
//
// Destruction ends it, with all of its group. Throws Error(kEnvironment) when there can
// be no process.
class Child : NoCopy {
 public:
  enum class Input { kEmpty, kOurs };
  // `prepare` is called in the new process, where it may do no more than system calls.
  Child(std::vector<std::string> words, std::vector<std::string> variables,
        int signal_of_our_death, const std::function<void()>& prepare,
        Input input = Input::kEmpty);
  ~Child();

  bool has_ended();
  void signal(int number) const;  // to it alone
  void end();                     // it and its group, in a second or two
  void kill_now();                // it and its group, unless it has ended
  int code() const;               // as ChildOutcome has it, when it has ended
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int status_ = 0;
  bool has_ended_ = false;
};

// Kill all children of this process but `others`, and what becomes a child by that, as
// the children of a dead mpirun do; for a process that has set PR_SET_CHILD_SUBREAPER.
// Others: those of before, which whoever became this program has started.
void kill_descendants(const std::vector<int64_t>& others);

// All that was written to such a file, wherever its writers are.
std::string text_in(int file);

// Start a process and wait for it.
//
// It is ended after `limit` seconds, and when this process is asked to stop (stop.h):
// then this throws Error(kInterrupted). When this process dies, it gets SIGTERM.
ChildOutcome run_child(const std::vector<std::string>& words,
                       const std::vector<std::string>& variables, double limit);

}  // namespace zero::launcher

#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace zero::scenarios {

struct Outcome {
  int rc = -1;           // 128 + the signal's number when a signal ended it
  bool is_late = false;  // it was ended because its time was over
  std::string out, err;
  int64_t peak_bytes = 0;  // resident, of the program and what it waited for
};

// A program that runs beside the test, in a process group of its own; ended with all it
// started when its time is over or this object goes.
class Program {
 public:
  // `variables`: "KEY=value", added to the environment. Standard output and error go to
  // files whose names begin with `log`.
  Program(const std::vector<std::string>& words,
          const std::vector<std::string>& variables, const std::string& log);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  std::string out_so_far() const;
  std::string err_so_far() const;
  Outcome wait(std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  bool has_ended();
  void end_all();

  std::string log_;
  pid_t pid_ = -1;
  int status_ = 0;
  struct rusage usage_ = {};
  bool has_ended_ = false;
};

// Live processes whose command line has this text.
std::vector<pid_t> pids_with(const std::string& text);

// A variable of another process; empty: it has none.
std::string variable_of(pid_t pid, const std::string& name);

// The rank whose command line has this text, started by --ranks or by mpirun; 0: none.
pid_t pid_of_rank(int rank, const std::string& text);

// Where processes listen for others than this host, "0.0.0.0:4711", of those with this
// text in their command line.
std::vector<std::string> open_ports_of(const std::string& text);

// Until `condition` holds; false when that takes too long.
template <class Condition>
bool wait_until(Condition condition,
                std::chrono::seconds limit = std::chrono::seconds(30));

void pause_a_little();  // 20 ms

template <class Condition>
bool wait_until(Condition condition, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    pause_a_little();
  }
  return true;
}

std::string read_file(const std::string& path);  // "" when it is not there

}  // namespace zero::scenarios

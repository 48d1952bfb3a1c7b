#include "base/processes.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace zero {

// Fields 3, 4 and 22 of /proc/PID/stat, counted after the program's name, which may hold
// anything.
ProcessState state_of_process(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  ProcessState state;
  std::string skipped;
  fields >> state.letter >> state.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> state.start_time;
  return state;
}

std::vector<int64_t> children_of(int64_t pid) {
  std::vector<int64_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const int64_t child = std::stoll(name);
    if (state_of_process(child).parent == pid) children.push_back(child);
  }
  return children;
}

// Of /proc/self/task/TID/schedstat the second number: nanoseconds on the run queue.
double seconds_without_core(const std::string& root) {
  std::error_code error;
  double seconds = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(root + "/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    double running = 0, waiting = 0;
    if (file >> running >> waiting) seconds += waiting / 1e9;
  }
  return seconds;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

double cpu_seconds_of_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace zero

#include "tests/scenarios/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

namespace zero::scenarios {
namespace {

namespace fs = std::filesystem;

void redirect(int stream, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  dup2(file, stream);
}

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::vector<std::string>& variables,
                         const std::string& log) {
  setpgid(0, 0);
  redirect(STDOUT_FILENO, log + ".out");
  redirect(STDERR_FILENO, log + ".err");
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// A zombie has ended; nobody has asked for its code yet.
bool is_zombie(const std::string& proc) {
  const std::string status = read_file(proc + "/stat");
  const size_t end_of_name = status.rfind(')');
  return end_of_name != status.npos && status.compare(end_of_name + 2, 1, "Z") == 0;
}

std::string folder_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

}  // namespace

Program::Program(const std::vector<std::string>& words,
                 const std::vector<std::string>& variables, const std::string& log)
    : log_(log) {
  // A script ignores one in the background, nohup the other.
  signal(SIGINT, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  pid_ = fork();
  if (pid_ == 0) become(words, variables, log);
  setpgid(pid_, pid_);
}

Program::~Program() {
  if (!has_ended()) end_all();
}

void Program::send(int signal) const { kill(pid_, signal); }

std::string Program::out_so_far() const { return read_file(log_ + ".out"); }

std::string Program::err_so_far() const { return read_file(log_ + ".err"); }

Outcome Program::wait(std::chrono::seconds limit) {
  Outcome outcome;
  if (!wait_until([&] { return has_ended(); }, limit)) {
    outcome.is_late = true;
    end_all();
  }
  outcome.rc = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  outcome.peak_bytes = usage_.ru_maxrss * 1024L;
  outcome.out = read_file(log_ + ".out");
  outcome.err = read_file(log_ + ".err");
  return outcome;
}

bool Program::has_ended() {
  if (!has_ended_) has_ended_ = wait4(pid_, &status_, WNOHANG, &usage_) == pid_;
  return has_ended_;
}

// mpirun puts its ranks into groups of their own; they are known by the test's folder.
void Program::end_all() {
  kill(-pid_, SIGKILL);
  for (const pid_t pid : pids_with(folder_of(log_))) kill(pid, SIGKILL);
  wait4(pid_, &status_, 0, &usage_);
  has_ended_ = true;
}

std::vector<pid_t> pids_with(const std::string& text) {
  std::vector<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!is_number(name) || std::stoi(name) == getpid()) continue;
    const bool is_meant = read_file(entry.path() / "cmdline").find(text) != text.npos;
    if (is_meant && !is_zombie(entry.path())) pids.push_back(std::stoi(name));
  }
  return pids;
}

std::string variable_of(pid_t pid, const std::string& name) {
  const std::string all = '\0' + read_file("/proc/" + std::to_string(pid) + "/environ");
  const std::string wanted = '\0' + name + '=';
  const size_t found = all.find(wanted);
  if (found == all.npos) return "";
  const size_t begin = found + wanted.size();
  return all.substr(begin, all.find('\0', begin) - begin);
}

pid_t pid_of_rank(int rank, const std::string& text) {
  const std::string name = std::to_string(rank);
  for (const pid_t pid : pids_with(text)) {
    if (variable_of(pid, "OMPI_COMM_WORLD_RANK") == name ||
        variable_of(pid, "ZERO_STARTER").starts_with(name + " "))
      return pid;
  }
  return 0;
}

// Lines of /proc/PID/net/tcp and tcp6: local address, state 0A (listening) and inode are
// fields 2, 4 and 10.
std::vector<std::string> open_ports_of(const std::string& text) {
  std::vector<std::string> ports;
  for (const pid_t pid : pids_with(text)) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::set<std::string> own;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", error))
      own.insert(std::filesystem::read_symlink(entry.path(), error));
    for (const char* table : {"/net/tcp", "/net/tcp6"}) {
      std::istringstream lines(read_file(folder + table));
      for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::vector<std::string> fields(std::istream_iterator<std::string>(words), {});
        if (fields.size() < 10 || fields[3] != "0A") continue;
        const bool is_loopback =
            fields[1].starts_with("0100007F") ||
            fields[1].starts_with("00000000000000000000000001000000");
        if (!is_loopback && own.contains("socket:[" + fields[9] + "]"))
          ports.push_back(fields[1]);
      }
    }
  }
  return ports;
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace zero::scenarios

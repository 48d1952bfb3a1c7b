#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace zero {

// Say what is wrong with a file, where in it, and what to do about it.
//
// what() is one text: "FILE: FQN: problem; cure". The parts are there for callers that
// print them on lines of their own; those that do not apply are empty.
class FileError : public std::runtime_error {
 public:
  FileError(std::string file, std::string fqn, std::string problem,
            std::string cure = {});

  const std::string& file() const { return file_; }
  const std::string& fqn() const { return fqn_; }
  const std::string& problem() const { return problem_; }
  const std::string& cure() const { return cure_; }
  std::string without_cure() const;  // "FILE: FQN: problem"

 private:
  std::string file_, fqn_, problem_, cure_;
};

// What to do about an error of the system, to a file that is written; "": who knows.
std::string cure_of(int error);

// Throw for a failed system call: "PATH: cannot write 12 bytes: No space left on device".
[[noreturn]] void throw_errno(const std::string& path, const std::string& action,
                              int error);
// The same of what is read alone.
[[noreturn]] void throw_unreadable(const std::string& path, const std::string& action,
                                   int error);

// Owns what the kernel calls a file or folder by.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

// What the kernel tells in small files of /proc and /sys.

// The first number of a file; none when the file is absent or says "max".
std::optional<int64_t> read_number(const std::string& path);

// The number after `key` in a file of lines "key number ...".
std::optional<int64_t> read_field(const std::string& path, const std::string& key);

// The first line of a file; empty when there is none.
std::string read_line(const std::string& path);

// Where a control group keeps its numbers.
struct ControlGroup {
  std::string folder;
  int version = 2;  // or 1: files have other names
};

// The groups that limit this process in the matters of `controller` ("memory", "cpu"),
// each before the one above it. Folders may be missing: a container does not see those of
// its outer groups. `root` is where /proc and /sys are looked for.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::string& root = "");

}  // namespace zero

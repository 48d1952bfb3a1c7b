#pragma once

#include <stdexcept>
#include <string>

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

 private:
  std::string file_, fqn_, problem_, cure_;
};

// Throw for a failed system call: "PATH: cannot write 12 bytes: No space left on device".
[[noreturn]] void throw_errno(const std::string& path, const std::string& action,
                              int error);

}  // namespace zero

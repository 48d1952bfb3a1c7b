#pragma once
#include <stdexcept>
#include <string>

namespace zero {

// What a process tells its caller when it ends.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,         // wrong flag, key or value
  kEnvironment = 3,   // this machine, MPI, memory
  kTraining = 4,      // non-finite numbers, divergence
  kCheckpoint = 5,    // checkpoint or other I/O
  kData = 6,          // training data
  kRequeue = 75,      // interrupted after saving: start it again
  kHang = 86,         // ranks do not answer
  kDiverged = 87,     // ranks do different things
  kInterrupted = 130  // interrupted without saving
};

// One error with a culprit: what is wrong, where, and what cures it. Thrown where the
// fault is seen; only a main() prints it, as three lines.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string what, std::string where = "", std::string cure = "")
      : std::runtime_error(join(what, where, cure)),
        code_(code),
        problem_(std::move(what)),
        where_(std::move(where)),
        cure_(std::move(cure)) {}

  ExitCode code() const { return code_; }
  const std::string& problem() const { return problem_; }
  const std::string& where() const { return where_; }
  const std::string& cure() const { return cure_; }

 private:
  static std::string join(const std::string& what, const std::string& where,
                          const std::string& cure) {
    return what + (where.empty() ? "" : "\n  where: " + where) +
           (cure.empty() ? "" : "\n  try:   " + cure);
  }

  ExitCode code_;
  std::string problem_, where_, cure_;
};

// Throw one of kUsage: what the caller asked for cannot be done.
[[noreturn]] inline void reject(const std::string& what, const std::string& where,
                                const std::string& cure) {
  throw Error(ExitCode::kUsage, what, where, cure);
}

}  // namespace zero

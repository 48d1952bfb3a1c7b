#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace zero::properties {

// A process that does some work and reports lines, so that its end, however bad, is
// nobody else's.
class Child {
 public:
  using Report = std::function<void(const std::string&)>;
  // Runs `work` in a fork of this process; an exception is reported as its text. `work`
  // must be the first of the process to start threads.
  explicit Child(const std::function<void(const Report&)>& work);
  ~Child();  // ends it
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;

  int pipe() const { return pipe_; }
  // The next report; nothing when it is over or has said nothing for so long.
  std::optional<std::string> next(int timeout_seconds);
  // How it ended after its last report: "" if well. A child that is still there is ended.
  std::string end();

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool is_late_ = false;
  std::string read_;
};

}  // namespace zero::properties

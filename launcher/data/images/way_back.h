#pragma once
#include <csetjmp>
#include <cstdio>
#include <string>

#include "launcher/data/mapped_file.h"

namespace zero::data {

// The way out of a C library whose handler of errors must not return: a jump back to the
// attempt. The reader of a picture owns one; it stays where it is.
class WayBack {
 public:
  // Run `step`; throws DataError where fail() ended it. Nothing that `step` or what it
  // calls keeps on the stack may need a destructor.
  template <typename Step>
  void attempt_or_throw(const std::string& where, Step step) {
    if (setjmp(attempt_) == 0) return step();
    throw DataError(std::string("the image is damaged: ") + message_, where,
                    "copy or write the image again, or leave it out");
  }

  [[noreturn]] void fail(const char* message) {
    std::snprintf(message_, sizeof(message_), "%s", message);
    std::longjmp(attempt_, 1);
  }

 private:
  std::jmp_buf attempt_;
  char message_[200] = "";
};

}  // namespace zero::data

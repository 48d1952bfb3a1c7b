#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace zero::launcher {

// The lines of a file, the last one first, in memory of one block and the longest line.
class LinesFromEnd {
 public:
  struct Line {
    int64_t begin = 0;     // where it stands in the file
    bool is_torn = false;  // the file ends before the line does
    std::string text;      // without its end
  };

  // The file stays the caller's, and keeps its `size` bytes meanwhile.
  LinesFromEnd(int descriptor, int64_t size);

  // Nothing at the file's beginning, or when it cannot be read.
  std::optional<Line> next();

  // Why the file could not be read on, as errno has it; 0: it could.
  int error() const { return error_; }

 private:
  bool read_more();

  const int descriptor_;
  int64_t begin_;       // of buffer_ in the file
  std::string buffer_;  // what has been read and not been handed out
  bool is_first_ = true;
  int error_ = 0;
};

}  // namespace zero::launcher

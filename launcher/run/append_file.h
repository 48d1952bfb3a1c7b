#pragma once
#include <cstdint>
#include <string>

namespace zero::launcher {

// Append lines to a file that the run can do without.
//
// Nothing here throws or stops: when a line cannot be written whole, the file keeps its
// last complete line, one warning goes to stderr, and later lines are tried again.
class AppendFile {
 public:
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Written through to the system, with a line end added; false when it was lost.
  bool append(const std::string& line);

  bool is_empty() const;  // nothing was ever written to it
  int64_t num_lost() const {
    return num_lost_;
  }  // lines, since the last one that was written

 private:
  bool try_append(const std::string& text);
  void lose_line();

  std::string path_;
  int descriptor_ = -1;
  int64_t num_lost_ = 0;
  bool has_warned_ = false;
};

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <string>

namespace zero::launcher {

// Append records to a file that the run can do without.
//
// Nothing here throws or stops: when a record cannot be written whole, the file keeps its
// last complete one, one warning goes to stderr, and later ones are tried again.
class AppendFile {
 public:
  // `end` is written behind each record.
  explicit AppendFile(std::string path, std::string end = "\n");
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Written through to the system; false when it was lost.
  bool append(const std::string& record);

  bool is_empty() const;  // nothing was ever written to it
  // Records, since the last one that was written.
  int64_t num_lost() const { return num_lost_; }

 private:
  bool try_append(const std::string& text);

  const std::string path_, end_;
  int descriptor_ = -1;
  int64_t num_lost_ = 0;
  bool has_warned_ = false;
};

}  // namespace zero::launcher

#pragma once
#include <functional>
#include <string>

namespace zero::launcher {

// Takes pieces of a whole, one after the other.
using WriteBytes = std::function<void(const std::string& bytes)>;

struct NewFile {
  std::string flag;  // that names it: "--out FILE"
  std::string what;  // is written: "predictions"
};

// Throws Error(kUsage) where there is something, or no folder.
void require_new_file(const std::string& path, const NewFile& file);

// Nobody's file is written over, and a file has its name when it is whole. Throws as
// require_new_file(), and Error(kCheckpoint) where it cannot be written.
void write_new_file(const std::string& path, const NewFile& file,
                    const std::function<void(const WriteBytes&)>& produce);

// The same to standard output where the path is "". Whoever reads that may have enough.
// Of ranks that produce it together the first one writes.
void write_result(bool is_first, const std::string& path, const NewFile& file,
                  const std::function<void(const WriteBytes&)>& produce);

}  // namespace zero::launcher

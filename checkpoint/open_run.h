#pragma once

#include <string>

#include "base/no_copy.h"
#include "checkpoint/file.h"

namespace zero::checkpoint {

// A run's folder, held open: whatever happens to its path, nothing is written elsewhere.
class OpenRun : NoCopy {
 public:
  explicit OpenRun(const std::string& path, Io& io = system_io());  // it exists
  virtual ~OpenRun() = default;

  // Throws CheckpointError when the path leads to another folder by now, or to none.
  // Asked before each of the changes below.
  virtual void check() const;

  void rename(const std::string& from, const std::string& to) const;

  // Remove one of our files, or a folder with the files that a checkpoint has. False: it
  // stays, as it is neither, or somebody else's files are in it.
  bool remove(const std::string& name) const;

  const Folder& folder() const { return folder_; }
  const std::string& path() const { return folder_.path(); }
  Io& io() const { return io_; }

 private:
  const Folder folder_;
  Io& io_;
};

// Make a run's folder with those above it, each durable in its parent, if it is missing.
void make_run_folder(const std::string& path, Io& io = system_io());

}  // namespace zero::checkpoint

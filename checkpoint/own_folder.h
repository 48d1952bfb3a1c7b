#pragma once

#include <string>

#include "base/no_copy.h"
#include "checkpoint/file.h"

namespace zero::checkpoint {

// A new folder that goes with all that is in it when this object does. Links in it are
// not followed.
class OwnFolder : NoCopy {
 public:
  // Throws CheckpointError, "cannot make a folder: ...".
  OwnFolder(const std::string& above, const std::string& name, Io& io = system_io());
  ~OwnFolder();

  // It stays.
  void keep() { is_kept_ = true; }

  const Folder& folder() const { return folder_; }
  const std::string& path() const { return folder_.path(); }

 private:
  const Folder above_;
  const std::string name_;
  Io& io_;
  const Folder folder_;
  bool is_kept_ = false;
};

}  // namespace zero::checkpoint

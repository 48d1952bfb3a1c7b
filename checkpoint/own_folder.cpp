#include "checkpoint/own_folder.h"

#include <fcntl.h>

#include <cerrno>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/own_files.h"

namespace zero::checkpoint {
namespace {

// By its path, so that a folder above that is not there is the same error as any other.
Folder make_below(const std::string& above, const std::string& name, Io& io) {
  const std::string path = above + "/" + name;
  if (io.mkdir(AT_FDCWD, path.c_str()) != 0) throw_errno(path, "make a folder", errno);
  return Folder(above);
}

}  // namespace

OwnFolder::OwnFolder(const std::string& above, const std::string& name, Io& io)
    : above_(make_below(above, name, io)),
      name_(name),
      io_(io),
      folder_(above_.subfolder(name)) {}

OwnFolder::~OwnFolder() {
  if (!is_kept_ && above_.has_folder(name_)) discard_tree(above_, name_, io_);
}

}  // namespace zero::checkpoint

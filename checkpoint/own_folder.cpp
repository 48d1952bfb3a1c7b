#include "checkpoint/own_folder.h"

#include <cerrno>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/own_files.h"

namespace zero::checkpoint {
namespace {

Folder make_folder(const Folder& above, const std::string& name, Io& io) {
  if (io.mkdir(above.descriptor(), name.c_str()) != 0)
    throw_errno(above.path_of(name), "create the folder", errno);
  return above.subfolder(name);
}

}  // namespace

OwnFolder::OwnFolder(const std::string& above, const std::string& name, Io& io)
    : above_(above), name_(name), io_(io), folder_(make_folder(above_, name, io)) {}

OwnFolder::~OwnFolder() {
  if (!is_kept_ && above_.has_folder(name_)) discard_tree(above_, name_, io_);
}

}  // namespace zero::checkpoint

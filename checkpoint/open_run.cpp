#include "checkpoint/open_run.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {

OpenRun::OpenRun(const std::string& path, Io& io) : folder_(path), io_(io) {}

void OpenRun::check() const {
  struct stat named {};
  struct stat held {};
  const bool is_same = ::stat(path().c_str(), &named) == 0 &&
                       ::fstat(folder_.descriptor(), &held) == 0 &&
                       named.st_dev == held.st_dev && named.st_ino == held.st_ino;
  if (is_same) return;
  throw CheckpointError(path(), "", "the run's folder was moved, replaced or removed",
                        "put it back, and start again");
}

void OpenRun::rename(const std::string& from, const std::string& to) const {
  check();
  if (io_.rename(folder_.descriptor(), from.c_str(), to.c_str()) != 0)
    throw_errno(folder_.path_of(from), "rename to " + to, errno);
}

bool OpenRun::remove(const std::string& name) const {
  check();
  if (!folder_.has_folder(name)) {
    folder_.unlink(name, io_);
    return true;
  }
  const Folder inner = folder_.subfolder(name);
  for (const std::string& file : inner.names()) {
    if (belongs_to_checkpoint(file) && !inner.has_folder(file)) inner.unlink(file, io_);
  }
  if (!inner.names().empty()) return false;
  folder_.remove_folder(name, io_);
  return true;
}

void make_run_folder(const std::string& path, Io& io) {
  std::error_code error;
  const auto [above, name] = split_path(path);
  if (std::filesystem::exists(path, error) || above == path) return;
  make_run_folder(above, io);
  const Folder parent(above);
  if (io.mkdir(parent.descriptor(), name.c_str()) != 0)
    throw_errno(parent.path_of(name), "create the folder", errno);
  parent.sync(io);
}

}  // namespace zero::checkpoint

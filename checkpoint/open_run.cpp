#include "checkpoint/open_run.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"

namespace zero::checkpoint {

OpenRun::OpenRun(const std::string& path, Io& io) : folder_(path), io_(io) {}

void OpenRun::check() const {
  struct stat named {};
  struct stat held {};
  const bool is_named = ::stat(path().c_str(), &named) == 0;
  // A file system that does not answer now: what is written goes into the held folder.
  if (!is_named && errno != ENOENT && errno != ENOTDIR) return;
  if (is_named && ::fstat(folder_.descriptor(), &held) == 0 &&
      named.st_dev == held.st_dev && named.st_ino == held.st_ino)
    return;
  throw CheckpointError(path(), "", "the run's folder was moved, replaced or removed",
                        "put it back, and start again");
}

void OpenRun::rename(const std::string& from, const std::string& to) const {
  check();
  rename_ours(folder_, from, to, io_);
}

bool OpenRun::remove(const std::string& name) const {
  check();
  return remove_ours(folder_, name, belongs_to_checkpoint, io_);
}

void make_run_folder(const std::string& path, Io& io) {
  std::error_code error;
  const auto [above, name] = split_path(path);
  if (std::filesystem::exists(path, error) || above == path) return;
  make_run_folder(above, io);
  if (name == "." || name == "..") return;
  const Folder parent(above);
  // Another process may be quicker; whether it has synced the name is not known.
  if (io.mkdir(parent.descriptor(), name.c_str()) != 0 && errno != EEXIST)
    throw_errno(parent.path_of(name), "create the folder", errno);
  parent.sync(io);
}

}  // namespace zero::checkpoint

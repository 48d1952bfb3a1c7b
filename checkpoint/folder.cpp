#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <memory>

#include "checkpoint/error.h"
#include "checkpoint/file.h"

namespace zero::checkpoint {
namespace {

void require_plain(const std::string& name) {
  assert(!name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos);
  static_cast<void>(name);
}

void require_regular(const struct stat& status, const std::string& path) {
  if (S_ISREG(status.st_mode)) return;
  throw CheckpointError(path, "", "is not a regular file",
                        "links, pipes, devices and folders are not read");
}

}  // namespace

Folder::Folder(const std::string& path)
    : Folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path) {}

Folder::Folder(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {
  if (descriptor_ < 0) throw_errno(path_, "open the folder", errno);
}

Folder Folder::subfolder(const std::string& name) const {
  require_plain(name);
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return Folder(::openat(descriptor_, name.c_str(), kFlags), path_of(name));
}

// O_NONBLOCK: opening a pipe must not wait for its writer.
File Folder::open(const std::string& name) const {
  require_plain(name);
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int descriptor = ::openat(descriptor_, name.c_str(), kFlags);
  if (descriptor < 0) throw_errno(path_of(name), "open", errno);
  File file(descriptor, path_of(name));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_errno(file.path(), "examine", errno);
  require_regular(status, file.path());
  return file;
}

File Folder::create(const std::string& name, Io& io) const {
  require_plain(name);
  const int descriptor = io.create(descriptor_, name.c_str());
  if (descriptor < 0) throw_errno(path_of(name), "create", errno);
  return File(descriptor, path_of(name));
}

int64_t Folder::size_of(const std::string& name) const {
  struct stat status {};
  if (!look(name, status)) {
    if (errno == ENOENT) throw CheckpointError(path_of(name), "", "is missing");
    throw_errno(path_of(name), "examine", errno);
  }
  require_regular(status, path_of(name));
  return status.st_size;
}

bool Folder::has(const std::string& name) const {
  struct stat status {};
  return look(name, status);
}

bool Folder::has_folder(const std::string& name) const {
  struct stat status {};
  return look(name, status) && S_ISDIR(status.st_mode);
}

bool Folder::look(const std::string& name, struct stat& status) const {
  require_plain(name);
  return ::fstatat(descriptor_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Folder::names() const {
  const int descriptor =
      ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // an own cursor
  if (descriptor < 0) throw_errno(path_, "list", errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(descriptor), ::closedir);
  if (listing == nullptr) throw_errno(path_, "list", errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) throw_errno(path_, "list", errno);
  std::sort(names.begin(), names.end());
  return names;
}

void Folder::sync(Io& io) const {
  while (io.fsync(descriptor_) != 0) {
    if (errno != EINTR) throw_errno(path_, "make the folder durable (fsync)", errno);
  }
}

void Folder::unlink(const std::string& name, Io& io) const {
  require_plain(name);
  if (io.unlink(descriptor_, name.c_str(), false) != 0)
    throw_errno(path_of(name), "remove", errno);
}

void Folder::remove_folder(const std::string& name, Io& io) const {
  require_plain(name);
  if (io.unlink(descriptor_, name.c_str(), true) != 0)
    throw_errno(path_of(name), "remove", errno);
}

}  // namespace zero::checkpoint

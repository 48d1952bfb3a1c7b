#include "checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "checkpoint/error.h"

namespace zero::checkpoint {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

File::File(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {
  assert(descriptor_ >= 0);
}

int64_t File::size_bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw_errno(path_, "ask for its size", errno);
  return status.st_size;
}

void File::read(void* out, size_t bytes, int64_t offset) const {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t done = ::pread(descriptor_, to, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      throw_errno(path_,
                  "read " + std::to_string(bytes) + " bytes at " + std::to_string(offset),
                  errno);
    }
    if (done == 0) {
      throw CheckpointError(path_, "",
                            "is cut off: it ends at or before byte " +
                                std::to_string(offset) + ", " + std::to_string(bytes) +
                                " more are needed");
    }
    to += done;
    offset += done;
    bytes -= static_cast<size_t>(done);
  }
}

void File::write(const void* data, size_t bytes, int64_t offset, Io& io) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = io.pwrite(descriptor_, from, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw_write_error(bytes, offset, done < 0 ? errno : ENOSPC);
    from += done;
    offset += done;
    bytes -= static_cast<size_t>(done);
  }
}

void File::throw_write_error(size_t bytes, int64_t offset, int error) const {
  std::string action =
      "write " + std::to_string(bytes) + " bytes at " + std::to_string(offset);
  struct statvfs space {};
  if (announced_bytes_ > 0 && ::fstatvfs(descriptor_, &space) == 0) {
    action += " (the file needs " + std::to_string(announced_bytes_) + " bytes, " +
              std::to_string(space.f_bavail * space.f_frsize) + " are free)";
  }
  throw_errno(path_, action, error);
}

// After a failed fsync the kernel may have dropped the pages: only EINTR is tried again.
void File::sync(Io& io) {
  while (io.fsync(descriptor_) != 0) {
    if (errno != EINTR) throw_errno(path_, "make its bytes durable (fsync)", errno);
  }
}

std::string read_text(const Folder& folder, const std::string& name, int64_t max_bytes) {
  const File file = folder.open(name);
  const int64_t bytes = file.size_bytes();
  if (bytes > max_bytes) {
    throw CheckpointError(file.path(), "",
                          "has " + std::to_string(bytes) + " bytes, the most is " +
                              std::to_string(max_bytes));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

void write_text(const Folder& folder, const std::string& name, std::string_view text,
                Io& io) {
  File file = folder.create(name, io);
  file.announce_size(static_cast<int64_t>(text.size()));
  file.write(text.data(), text.size(), 0, io);
  file.sync(io);
}

PathParts split_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace zero::checkpoint

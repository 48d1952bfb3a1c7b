#include "checkpoint/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <memory>

#include "base/files.h"
#include "base/no_copy.h"
#include "base/text.h"
#include "checkpoint/error.h"

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

// After a failed fsync the kernel may have dropped the pages: only EINTR is tried again.
void sync_descriptor(int descriptor, const std::string& path, const char* action,
                     Io& io) {
  while (io.fsync(descriptor) != 0) {
    if (errno != EINTR) throw_errno(path, action, errno);
  }
}

// Where memory must begin that goes to the disk as it is. Older systems do not tell.
size_t alignment_for_disk(int descriptor) {
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 ||
      (status.stx_mask & STATX_DIOALIGN) == 0)
    return File::kBlockBytes;
  const bool takes_blocks = status.stx_dio_offset_align > 0 &&
                            File::kBlockBytes % status.stx_dio_offset_align == 0;
  return takes_blocks ? status.stx_dio_mem_align : 0;
}

// Pages of these bytes that are in the system's cache; -1 where it does not tell:
// cachestat(2), of Linux 6.5, for which the C library has no function.
int64_t cached_pages(int descriptor, int64_t begin, int64_t bytes) {
  constexpr long kCachestat = 451;
  const int64_t range[] = {begin, bytes};
  int64_t told[5];  // cached, dirty, being written, evicted, evicted recently
  return ::syscall(kCachestat, descriptor, range, told, 0) == 0 ? told[0] : -1;
}

// A descriptor that goes past the system's cache until the end of the scope, if it can.
class PastCache : NoCopy {
 public:
  explicit PastCache(int descriptor)
      : descriptor_(descriptor), flags_(::fcntl(descriptor, F_GETFL)) {
    is_on_ = flags_ >= 0 && ::fcntl(descriptor, F_SETFL, flags_ | O_DIRECT) == 0;
  }
  ~PastCache() {
    if (is_on_) ::fcntl(descriptor_, F_SETFL, flags_);
  }
  bool is_on() const { return is_on_; }

 private:
  const int descriptor_, flags_;
  bool is_on_ = false;
};

}  // namespace

File::File(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {
  assert(descriptor_ >= 0);
  direct_alignment_ = alignment_for_disk(descriptor_);
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
    if (done < 0)
      throw_errno(path_, text_of("read ", bytes, " bytes at ", offset), errno);
    if (done == 0) {
      throw CheckpointError(path_, "",
                            text_of("is cut off: it ends at or before byte ", offset,
                                    ", ", bytes, " more are needed"));
    }
    to += done;
    offset += done;
    bytes -= static_cast<size_t>(done);
  }
}

// A read that may not wait (RWF_NOWAIT) would fetch them. mincore() takes seven times as
// long as cachestat().
bool File::is_cached(int64_t offset, int64_t bytes) const {
  const int64_t begin = offset - offset % kBlockBytes;
  const int64_t length = offset + bytes - begin;
  const int64_t num_pages = (length + kBlockBytes - 1) / kBlockBytes;
  const int64_t cached = cached_pages(descriptor_, begin, length);
  if (cached >= 0) return cached == num_pages;
  const auto size = static_cast<size_t>(length);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, begin);
  if (mapped == MAP_FAILED) return false;
  std::vector<unsigned char> pages(static_cast<size_t>(num_pages));
  const bool is_told = ::mincore(mapped, size, pages.data()) == 0;
  ::munmap(mapped, size);
  return is_told && std::ranges::all_of(pages, [](auto page) { return page & 1; });
}

bool File::takes(const void* data) const {
  return direct_alignment_ == 0 ||
         reinterpret_cast<uintptr_t>(data) % direct_alignment_ == 0;
}

// What `call` of as many whole blocks did past the cache: all bytes, some, or none where
// the file system knows no such calls.
template <class Call, class Fail>
size_t File::past_cache(const void* memory, size_t bytes, int64_t offset,
                        const Call& call, const Fail& fail) {
  const size_t whole = bytes - bytes % kBlockBytes;
  if (whole == 0 || direct_alignment_ == 0 || !takes(memory) || offset % kBlockBytes != 0)
    return 0;
  const PastCache past_cache(descriptor_);
  if (!past_cache.is_on()) return 0;
  ssize_t done = 0;
  do {
    done = call(whole);
  } while (done < 0 && errno == EINTR);
  if (done >= 0) return static_cast<size_t>(done);
  if (errno != EINVAL) fail(whole);
  direct_alignment_ = 0;
  return 0;
}

void File::read_direct(void* out, size_t bytes, int64_t offset) {
  const size_t done = past_cache(
      out, bytes, offset,
      [&](size_t whole) { return ::pread(descriptor_, out, whole, offset); },
      [&](size_t whole) {
        throw_errno(path_, text_of("read ", whole, " bytes at ", offset), errno);
      });
  read(static_cast<char*>(out) + done, bytes - done, offset + static_cast<int64_t>(done));
}

// Of one call Linux fetches no more than what the disk takes at a time.
void File::ask_for(int64_t offset, int64_t bytes) const {
  constexpr int64_t kBytesOfACall = int64_t{1} << 20;
  for (; bytes > 0; offset += kBytesOfACall, bytes -= kBytesOfACall) {
    ::posix_fadvise(descriptor_, offset, std::min(bytes, kBytesOfACall),
                    POSIX_FADV_WILLNEED);
  }
}

void File::expect_to_be_asked() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
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

void File::write_direct(const void* data, size_t bytes, int64_t offset, Io& io) {
  const size_t done = past_cache(
      data, bytes, offset,
      [&](size_t whole) { return io.pwrite(descriptor_, data, whole, offset); },
      [&](size_t whole) { throw_write_error(whole, offset, errno); });
  write(static_cast<const char*>(data) + done, bytes - done,
        offset + static_cast<int64_t>(done), io);
}

void File::throw_write_error(size_t bytes, int64_t offset, int error) const {
  std::string action = text_of("write ", bytes, " bytes at ", offset);
  struct statvfs space {};
  if (announced_bytes_ > 0 && ::fstatvfs(descriptor_, &space) == 0) {
    action += text_of(" (the file needs ", announced_bytes_, " bytes, ",
                      space.f_bavail * space.f_frsize, " are free)");
  }
  throw_errno(path_, action, error);
}

void File::sync(Io& io) {
  sync_descriptor(descriptor_, path_, "make its bytes durable (fsync)", io);
}

Folder::Folder(const std::string& path)
    : Folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path) {}

Folder::Folder(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {
  if (descriptor_ < 0) throw_unreadable(path_, "open the folder", errno);
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
  if (descriptor < 0) throw_unreadable(path_of(name), "open", errno);
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

bool Folder::has_file(const std::string& name) const {
  struct stat status {};
  return look(name, status) && S_ISREG(status.st_mode);
}

bool Folder::has_folder(const std::string& name) const {
  struct stat status {};
  return look(name, status) && S_ISDIR(status.st_mode);
}

bool Folder::leads_to_folder(const std::string& name) const {
  require_plain(name);
  struct stat status {};
  return ::fstatat(descriptor_, name.c_str(), &status, 0) == 0 && S_ISDIR(status.st_mode);
}

bool Folder::look(const std::string& name, struct stat& status) const {
  require_plain(name);
  return ::fstatat(descriptor_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Folder::names() const {
  const int descriptor =
      ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // an own cursor
  if (descriptor < 0) throw_unreadable(path_, "list", errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(descriptor), ::closedir);
  if (listing == nullptr) throw_unreadable(path_, "list", errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) throw_unreadable(path_, "list", errno);
  std::sort(names.begin(), names.end());
  return names;
}

void Folder::sync(Io& io) const {
  sync_descriptor(descriptor_, path_, "make the folder durable (fsync)", io);
}

std::string read_text(const Folder& folder, const std::string& name, int64_t max_bytes) {
  const File file = folder.open(name);
  const int64_t bytes = file.size_bytes();
  if (bytes > max_bytes) {
    throw CheckpointError(file.path(), "",
                          text_of("has ", bytes, " bytes, the most is ", max_bytes));
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

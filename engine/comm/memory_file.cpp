#include "engine/comm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/text.h"
#include "zero/errors.h"

namespace zero {
namespace {

[[noreturn]] void fail(const std::string& function, const std::string& where) {
  const bool is_limited = errno == EFBIG;
  throw Error(ExitCode::kEnvironment, function + " failed: " + std::strerror(errno),
              where,
              is_limited ? "ulimit -f unlimited: memory that ranks share counts as a file"
                         : "ranks of one host share memory: run them in one container, "
                           "as one user");
}

}  // namespace

MemoryFile MemoryFile::create(int64_t bytes, MemoryTicket& ticket) {
  Descriptor file(memfd_create("zero", MFD_CLOEXEC));
  struct stat status;
  if (file < 0 || ftruncate(file, bytes) != 0 || fstat(file, &status) != 0)
    fail("memfd_create", text_of(bytes, " bytes shared by ranks"));
  ticket = {{getpid(), file, static_cast<int64_t>(status.st_ino)}};
  return {std::move(file), bytes};
}

MemoryFile MemoryFile::open(const MemoryTicket& ticket, int64_t bytes) {
  const std::string path = text_of("/proc/", ticket.words[0], "/fd/", ticket.words[1]);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) fail("open", path);
  if (static_cast<int64_t>(status.st_ino) != ticket.words[2] || status.st_size != bytes) {
    errno = ESTALE;  // another container's process of the same number
    fail("open", path);
  }
  return {std::move(file), bytes};
}

std::shared_ptr<std::byte> MemoryFile::map() const { return map(MAP_SHARED); }
std::shared_ptr<std::byte> MemoryFile::map_copy_on_write() const {
  return map(MAP_PRIVATE | MAP_NORESERVE);  // nobody means to write there
}

std::shared_ptr<std::byte> MemoryFile::map(int flags) const {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, *file_, 0);
  if (memory == MAP_FAILED) fail("mmap", text_of(bytes_, " bytes shared by ranks"));
  madvise(memory, bytes_, MADV_HUGEPAGE);  // advice only
  return {static_cast<std::byte*>(memory),
          [bytes = bytes_, file = file_](std::byte* data) { munmap(data, bytes); }};
}

}  // namespace zero

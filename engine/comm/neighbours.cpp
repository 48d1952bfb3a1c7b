#include "engine/comm/neighbours.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "checkpoint/processes.h"
#include "engine/errors.h"

namespace zero {
namespace {

[[noreturn]] void fail(const std::string& function, const std::string& where) {
  throw Error(ExitCode::kEnvironment, function + " failed: " + std::strerror(errno),
              where,
              "ranks of one host share memory: run them in one container, as one user");
}

// An open file descriptor.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::shared_ptr<std::byte> map(const std::shared_ptr<File>& file, int64_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor(), 0);
  if (memory == MAP_FAILED)
    fail("mmap", std::to_string(bytes) + " bytes shared by ranks");
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice only
  return {static_cast<std::byte*>(memory),
          [bytes, file](std::byte* data) { munmap(data, bytes); }};
}

bool is_gone(const Identity& identity) {
  const checkpoint::ProcessState now = checkpoint::state_of_process(identity.process);
  if (now.start_time == 0) {  // gone, or we lack file descriptors to look
    return kill(static_cast<pid_t>(identity.process), 0) != 0 && errno == ESRCH;
  }
  return now.is_dead() || now.start_time != identity.start_time;
}

}  // namespace

std::shared_ptr<std::byte> ProcessNeighbours::create(int64_t bytes,
                                                     MemoryTicket& ticket) {
  auto file = std::make_shared<File>(memfd_create("zero", MFD_CLOEXEC));
  struct stat status;
  if (file->descriptor() < 0 || ftruncate(file->descriptor(), bytes) != 0 ||
      fstat(file->descriptor(), &status) != 0) {
    fail("memfd_create", std::to_string(bytes) + " bytes shared by ranks");
  }
  ticket.words[0] = getpid();
  ticket.words[1] = file->descriptor();
  ticket.words[2] = static_cast<int64_t>(status.st_ino);
  return map(file, bytes);
}

std::shared_ptr<std::byte> ProcessNeighbours::open(const MemoryTicket& ticket,
                                                   int64_t bytes) {
  const std::string path = "/proc/" + std::to_string(ticket.words[0]) + "/fd/" +
                           std::to_string(ticket.words[1]);
  auto file = std::make_shared<File>(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status;
  if (file->descriptor() < 0 || fstat(file->descriptor(), &status) != 0)
    fail("open", path);
  if (static_cast<int64_t>(status.st_ino) != ticket.words[2] || status.st_size != bytes) {
    errno = ESTALE;  // another container's process of the same number
    fail("open", path);
  }
  return map(file, bytes);
}

Identity ProcessNeighbours::self() const {
  return {getpid(), checkpoint::state_of_process(getpid()).start_time};
}

std::string ProcessNeighbours::reason_gone(const Identity& identity) const {
  if (!is_gone(identity)) return "";
  return "(pid " + std::to_string(identity.process) + ") is gone";
}

}  // namespace zero

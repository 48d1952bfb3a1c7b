#include "engine/comm/neighbours.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/files.h"
#include "base/processes.h"
#include "base/text.h"
#include "zero/errors.h"

namespace zero {

namespace {

[[noreturn]] void fail(const std::string& function, const std::string& where) {
  throw Error(ExitCode::kEnvironment, function + " failed: " + std::strerror(errno),
              where,
              "ranks of one host share memory: run them in one container, as one user");
}

using SharedFile = std::shared_ptr<Descriptor>;

std::shared_ptr<std::byte> map(const SharedFile& file, int64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
  if (memory == MAP_FAILED) fail("mmap", text_of(bytes, " bytes shared by ranks"));
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice only
  return {static_cast<std::byte*>(memory),
          [bytes, file](std::byte* data) { munmap(data, bytes); }};
}

bool is_gone(const Identity& identity) {
  const ProcessState now = state_of_process(identity.process);
  if (now.start_time == 0) {  // gone, or we lack file descriptors to look
    return kill(static_cast<pid_t>(identity.process), 0) != 0 && errno == ESRCH;
  }
  return now.is_dead() || now.start_time != identity.start_time;
}

class ProcessNeighbours final : public Neighbours {
 public:
  std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket& ticket) override {
    auto file = std::make_shared<Descriptor>(memfd_create("zero", MFD_CLOEXEC));
    struct stat status;
    if (*file < 0 || ftruncate(*file, bytes) != 0 || fstat(*file, &status) != 0)
      fail("memfd_create", text_of(bytes, " bytes shared by ranks"));
    ticket = {{getpid(), *file, static_cast<int64_t>(status.st_ino)}};
    return map(file, bytes);
  }

  std::shared_ptr<std::byte> open(const MemoryTicket& ticket, int64_t bytes) override {
    const std::string path = text_of("/proc/", ticket.words[0], "/fd/", ticket.words[1]);
    auto file = std::make_shared<Descriptor>(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct stat status;
    if (*file < 0 || fstat(*file, &status) != 0) fail("open", path);
    if (static_cast<int64_t>(status.st_ino) != ticket.words[2] ||
        status.st_size != bytes) {
      errno = ESTALE;  // another container's process of the same number
      fail("open", path);
    }
    return map(file, bytes);
  }

  Identity self() const override {
    return {getpid(), state_of_process(getpid()).start_time};
  }

  std::string reason_gone(const Identity& identity) const override {
    if (!is_gone(identity)) return "";
    return text_of("(pid ", identity.process, ") is gone");
  }
};

}  // namespace

std::shared_ptr<Neighbours> make_process_neighbours() {
  return std::make_shared<ProcessNeighbours>();
}

}  // namespace zero

#include "engine/comm/neighbours.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/processes.h"
#include "base/text.h"

namespace zero {

namespace {

bool is_gone(const Identity& identity) {
  const ProcessState now = state_of_process(identity.process);
  if (now.start_time == 0) {  // gone, or we lack file descriptors to look
    return kill(static_cast<pid_t>(identity.process), 0) != 0 && errno == ESRCH;
  }
  if (identity.start_time == 0) return now.is_dead();  // it could not look at itself
  return now.is_dead() || now.start_time != identity.start_time;
}

class ProcessNeighbours final : public Neighbours {
 public:
  std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket& ticket) override {
    return MemoryFile::create(bytes, ticket).map();
  }

  std::shared_ptr<std::byte> open(const MemoryTicket& ticket, int64_t bytes) override {
    return MemoryFile::open(ticket, bytes).map();
  }

  Identity self() const override {
    return {getpid(), state_of_process(getpid()).start_time};
  }

  // Who has started this rank starts the others, and ends all if one of them dies early.
  std::string reason_gone(const Identity& identity) const override {
    if (identity.process == 0)
      return getppid() == parent_
                 ? ""
                 : "has not come, and the process that started this one is gone";
    if (!is_gone(identity)) return "";
    return text_of("(pid ", identity.process, ") is gone");
  }

 private:
  const pid_t parent_ = getppid();
};

}  // namespace

std::shared_ptr<Neighbours> make_process_neighbours() {
  return std::make_shared<ProcessNeighbours>();
}

}  // namespace zero

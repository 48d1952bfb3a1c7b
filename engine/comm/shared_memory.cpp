#include "engine/comm/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "engine/comm/agreement.h"
#include "engine/comm/memory_file.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero {

// The maker keeps the file until all have opened it.
SharedMemory::SharedMemory(Ranks& group, int64_t bytes) : bytes_(bytes) {
  Agreement agreement(group, "memory that ranks share");
  MemoryTicket ticket;
  std::optional<MemoryFile> file;
  agreement.run([&] {
    if (agreement.is_first()) file = MemoryFile::create(bytes, ticket);
  });
  group.broadcast(&ticket, sizeof ticket, 0, "memory that ranks share");
  agreement.run([&] {
    if (!agreement.is_first()) file = MemoryFile::open(ticket, bytes);
    data_ = file->map();
    view_ = file->map_copy_on_write();
  });
}

void SharedMemory::refresh_view() {
  if (madvise(view(), bytes_, MADV_DONTNEED) == 0) return;
  throw Error(ExitCode::kEnvironment,
              std::string("madvise failed: ") + std::strerror(errno),
              "memory that ranks share", "");
}

bool can_share_memory(Ranks& group, Ranks& all) {
  int64_t can = group.size() > 1 && group.local_size() == group.size();
  group.all_reduce(std::span(&can, 1), ReduceOp::kMin, "ranks of the host");
  if (can) {
    try {
      SharedMemory(group, /*bytes=*/1);
    } catch (const Error&) {
      can = 0;  // they have the host in common, but not its processes
    }
  }
  all.all_reduce(std::span(&can, 1), ReduceOp::kMin, "memory that ranks share");
  return can;
}

}  // namespace zero

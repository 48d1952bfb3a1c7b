#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/files.h"

namespace zero {

// By what a process finds memory that another one made.
struct MemoryTicket {
  int64_t words[4] = {};
};

// Memory that processes of a host (of a PID namespace) share: a file without a name, of
// which a crash leaves nothing.
class MemoryFile {
 public:
  // Of so many zeroed bytes; others open it by the ticket as long as one of this
  // process's mappings lives. Throws Error(kEnvironment).
  static MemoryFile create(int64_t bytes, MemoryTicket& ticket);
  static MemoryFile open(const MemoryTicket& ticket, int64_t bytes);

  // The memory, which outlives this. Throws Error(kEnvironment).
  std::shared_ptr<std::byte> map() const;
  // The same for reading: who writes to it keeps that for himself.
  std::shared_ptr<std::byte> map_copy_on_write() const;

 private:
  MemoryFile(Descriptor file, int64_t bytes)
      : file_(std::make_shared<Descriptor>(std::move(file))), bytes_(bytes) {}
  std::shared_ptr<std::byte> map(int flags) const;

  std::shared_ptr<Descriptor> file_;
  int64_t bytes_;
};

}  // namespace zero

#pragma once

#include <cstdint>
#include <vector>

namespace zero::checkpoint::testing {

// One read of a file by this process.
struct ReadCall {
  uint64_t file;  // its inode
  int64_t begin, end;
  bool is_direct;  // past the system's cache
};

// Until it ends, writes down what all threads read, and lets reads fare badly. The
// system's cache gives nothing without being read from the disk.
class WatchedReads {
 public:
  WatchedReads();
  ~WatchedReads();
  WatchedReads(const WatchedReads&) = delete;
  WatchedReads& operator=(const WatchedReads&) = delete;

  // As a file system that knows no direct reads does, when it is too late to ask it.
  void refuse_direct();
  std::vector<ReadCall> calls() const;
};

// Of this thread's next reads every second one is interrupted, the others are short.
void interrupt_reads(int num_reads);
int num_reads_to_interrupt();

// For this thread the system does not tell what it has in its cache (Linux before 6.5).
void pretend_an_old_system(bool is_old);

}  // namespace zero::checkpoint::testing

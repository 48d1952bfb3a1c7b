#include "launcher/process/kept_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>

namespace zero::launcher {

int64_t KeptMemory::bytes_of(int64_t bytes) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  return (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
}

KeptMemory::KeptMemory(int64_t bytes) {
  void* const range = mmap(nullptr, bytes_of(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return;
  start_ = static_cast<std::byte*>(range);
  bytes_ = bytes_of(bytes);
  put(start_, {bytes_, State::kFresh});
}

KeptMemory::~KeptMemory() {
  if (start_) munmap(start_, bytes_);
}

bool KeptMemory::has(const void* memory) const {
  const auto* const place = static_cast<const std::byte*>(memory);
  return start_ && place >= start_ && place < start_ + bytes_;
}

KeptMemory::Use KeptMemory::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

std::byte* KeptMemory::lend(int64_t bytes) {
  bytes = bytes_of(bytes);
  const std::lock_guard lock(mutex_);
  std::byte* block = lend_from(State::kKept, bytes);
  const bool takes_fresh = !block;
  if (!block) block = lend_into_fresh(bytes);
  if (!block) block = lend_from(State::kFresh, bytes);
  if (!block) return nullptr;
  use_.lent += bytes;
  use_.most = std::max(use_.most, use_.lent);
  if (takes_fresh) return_pages(use_.lent + use_.kept - use_.most);
  return block;
}

int64_t KeptMemory::take_back(std::byte* start) {
  const std::lock_guard lock(mutex_);
  const Block block = take_out(blocks_.find(start));
  assert(block.state == State::kLent);
  use_.lent -= block.bytes;
  put(start, {block.bytes, State::kKept});
  return block.bytes;
}

// Of the smallest free block of this state that suffices.
std::byte* KeptMemory::lend_from(State state, int64_t bytes) {
  const BySize& blocks = by_size(state);
  const auto fitting = blocks.lower_bound({bytes, nullptr});
  if (fitting == blocks.end()) return nullptr;
  std::byte* const start = fitting->second;
  const Block whole = take_out(blocks_.find(start));
  put(start, {bytes, State::kLent});
  if (whole.bytes > bytes) put(start + bytes, {whole.bytes - bytes, state});
  return start;
}

// Of the largest kept block that suffices with the fresh one behind it.
std::byte* KeptMemory::lend_into_fresh(int64_t bytes) {
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    const auto [kept_bytes, start] = *kept;
    const auto behind = blocks_.find(start + kept_bytes);
    if (behind == blocks_.end() || behind->second.state != State::kFresh) continue;
    const int64_t rest = kept_bytes + behind->second.bytes - bytes;
    if (rest < 0) continue;
    take_out(behind);
    take_out(blocks_.find(start));
    put(start, {bytes, State::kLent});
    if (rest > 0) put(start + bytes, {rest, State::kFresh});
    return start;
  }
  return nullptr;
}

// The smallest kept blocks first: large ones serve more.
void KeptMemory::return_pages(int64_t bytes) {
  while (bytes > 0 && !kept_.empty()) {
    std::byte* const start = kept_.begin()->second;
    const Block block = take_out(blocks_.find(start));
    const int64_t given = std::min(bytes, block.bytes);
    if (madvise(start, given, MADV_DONTNEED) != 0) return put(start, block);  // locked
    put(start, {given, State::kFresh});
    if (block.bytes > given) put(start + given, {block.bytes - given, State::kKept});
    use_.returned += given;
    bytes -= given;
  }
}

// A free block joins its free neighbours of the same state.
void KeptMemory::put(std::byte* start, Block block) {
  if (block.state != State::kLent) {
    const auto next = blocks_.find(start + block.bytes);
    if (next != blocks_.end() && next->second.state == block.state)
      block.bytes += take_out(next).bytes;
    const auto above = blocks_.lower_bound(start);
    if (above != blocks_.begin()) {
      const auto before = std::prev(above);
      if (before->second.state == block.state) {
        start = before->first;
        block.bytes += take_out(before).bytes;
      }
    }
    by_size(block.state).emplace(block.bytes, start);
    if (block.state == State::kKept) use_.kept += block.bytes;
  }
  blocks_.emplace(start, block);
}

KeptMemory::Block KeptMemory::take_out(Blocks::iterator at) {
  const Block block = at->second;
  if (block.state != State::kLent) by_size(block.state).erase({block.bytes, at->first});
  if (block.state == State::kKept) use_.kept -= block.bytes;
  blocks_.erase(at);
  return block;
}

}  // namespace zero::launcher

#include "offload/host_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace zero {
namespace {

constexpr int64_t kAlignment = 64;

std::atomic<int64_t> total_bytes = 0;

int64_t page_bytes() { return sysconf(_SC_PAGESIZE); }

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void check_bytes(const std::string& owner, int64_t bytes) {
  // The margin keeps all rounding up below from overflowing.
  if (bytes >= 0 && bytes < std::numeric_limits<int64_t>::max() / 2) return;
  throw std::invalid_argument(owner + ": " + std::to_string(bytes) +
                              " bytes is no size of memory");
}

std::byte* map_pages(const std::string& name, int64_t bytes) {
  void* pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw HostMemoryError(
        "host arena \"" + name + "\": cannot map " + std::to_string(bytes) +
        " bytes: " + std::strerror(errno) +
        "; use more ranks or a smaller model, or raise `ulimit -v` and the "
        "container's memory limit");
  }
  madvise(pages, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(pages);
}

}  // namespace

HostArena::HostArena(std::string name, int64_t bytes) : name_(std::move(name)) {
  check_bytes("host arena \"" + name_ + "\"", bytes);
  capacity_bytes_ = padded(bytes);
  mapped_bytes_ = round_up(std::max<int64_t>(capacity_bytes_, 1), page_bytes());
  data_ = map_pages(name_, mapped_bytes_);
  total_bytes += capacity_bytes_;
}

HostArena::~HostArena() {
  munmap(data_, mapped_bytes_);
  total_bytes -= capacity_bytes_;
}

std::byte* HostArena::allocate(const std::string& name, int64_t bytes) {
  check_bytes("host arena \"" + name_ + "\": allocation \"" + name + "\"", bytes);
  const int64_t left = capacity_bytes_ - used_bytes_;
  if (padded(bytes) > left) {
    throw HostMemoryError("host arena \"" + name_ + "\": allocation \"" + name +
                          "\" needs " + std::to_string(padded(bytes)) + " bytes, " +
                          std::to_string(left) + " of " +
                          std::to_string(capacity_bytes_) +
                          " are left; the plan that sized the arena misses it");
  }
  std::byte* data = data_ + used_bytes_;
  used_bytes_ += padded(bytes);
  assert(used_bytes_ % kAlignment == 0);
  return data;
}

int64_t HostArena::bytes_of(const std::string& name, int64_t numel,
                            int64_t bytes_each) const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(numel, bytes_each, &bytes)) {
    bytes = std::numeric_limits<int64_t>::max();
  }
  check_bytes("host arena \"" + name_ + "\": allocation \"" + name + "\"", bytes);
  return bytes;
}

int64_t HostArena::padded(int64_t bytes) { return round_up(bytes, kAlignment); }

int64_t live_bytes() { return total_bytes; }

}  // namespace zero

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace zero::checkpoint {

// Memory for bytes on their way from or to a file, whole pages, which a disk can take as
// they are: huge ones where the system gives them, which a virtual disk moves half as
// fast again as small ones. Where memory begins 16 bytes beside a multiple of 64, as that
// of a vector may, the kernel of an AMD EPYC takes six times as long to copy to it.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : bytes_(static_cast<char*>(::operator new(bytes, kAlignment))) {
    ::madvise(bytes_.get(), bytes, MADV_HUGEPAGE);
  }
  char* data() const { return bytes_.get(); }

  static bool is_good_place(const void* place) {
    return reinterpret_cast<uintptr_t>(place) % 32 == 0;
  }

 private:
  static constexpr std::align_val_t kAlignment{2 << 20};
  struct Free {
    void operator()(char* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<char, Free> bytes_;
};

}  // namespace zero::checkpoint

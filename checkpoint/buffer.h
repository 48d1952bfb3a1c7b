#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace zero::checkpoint {

// Memory for bytes on their way from or to a file, whole pages, which a disk can take as
// they are. Where memory begins 16 bytes beside a multiple of 64, as that of a vector
// may, the kernel of an AMD EPYC takes six times as long to copy to it.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : bytes_(static_cast<char*>(::operator new(bytes, kAlignment))) {}
  char* data() const { return bytes_.get(); }

  static bool is_good_place(const void* place) {
    return reinterpret_cast<uintptr_t>(place) % 32 == 0;
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(char* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<char, Free> bytes_;
};

}  // namespace zero::checkpoint

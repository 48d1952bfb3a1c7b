#pragma once

#include <unistd.h>

#include <utility>

namespace zero {

// Owns what the kernel calls a file or folder by.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

}  // namespace zero

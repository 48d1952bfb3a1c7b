#pragma once

namespace zero {

// Base of what stands for one thing, such as a scope or a piece of memory: a copy would
// end it twice.
class NoCopy {
 protected:
  NoCopy() = default;
  ~NoCopy() = default;
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;
};

}  // namespace zero

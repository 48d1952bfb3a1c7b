#pragma once

#include <algorithm>
#include <chrono>

namespace zero {

// Never less than 0: the clock of a machine that was moved to another may jump back.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  const auto now = std::chrono::steady_clock::now();
  return std::max(0.0, std::chrono::duration<double>(now - begin).count());
}

}  // namespace zero

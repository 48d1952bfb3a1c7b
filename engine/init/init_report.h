#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zero {

// How a parameter or buffer started. Numbers do not depend on how many ranks there are.
struct InitEntry {
  static InitEntry of(std::string fqn, std::string who, std::string distribution = "") {
    InitEntry entry;
    entry.fqn = std::move(fqn);
    entry.who = std::move(who);
    entry.distribution = std::move(distribution);
    return entry;
  }

  std::string fqn;
  bool is_buffer = false;
  // "function of h.0", "rule *.bias", "constructor", "rank 0", "every rank"
  std::string who;
  // "normal(0, 0.02)"; "" where elements follow from each other, or from a file
  std::string distribution;
  int64_t numel = 0;
  double mean = 0, std = 0;      // of all elements, exact sums; infinite ones left out
  uint64_t checksum = 0;         // of each element's place and value
  int64_t num_infinite = 0;      // of a buffer
  bool after_post_init = false;  // post_init wrote it again; numbers are those of before
};

}  // namespace zero

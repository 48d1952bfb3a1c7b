#include "checkpoint/slice.h"

#include <set>
#include <utility>

#include "checkpoint/error.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

[[noreturn]] void fail(const Slice& slice, const std::string& problem,
                       const std::string& cure = {}) {
  throw CheckpointError("", slice.fqn, std::string(name_of(slice.kind)) + ": " + problem,
                        cure);
}

void check_slice(const Slice& slice, int rank) {
  check_name(slice.fqn);
  const auto full = checked_numel(slice.shape);
  if (!full) fail(slice, "the shape " + to_string(slice.shape) + " is not possible");
  if (slice.begin < 0 || slice.numel < 0 || slice.begin > *full ||
      slice.numel > *full - slice.begin) {
    fail(slice, "rank " + std::to_string(rank) + " has " + std::to_string(slice.numel) +
                    " elements from " + std::to_string(slice.begin) + ", the shape " +
                    to_string(slice.shape) + " has " + std::to_string(*full));
  }
  if (is_replicated(slice.kind) && (rank != 0 || slice.numel != *full)) {
    fail(slice, "is not sharded", "let rank 0 alone give it, whole");
  }
}

}  // namespace

void check_slices(const std::vector<Slice>& slices, int rank) {
  std::set<std::pair<Kind, std::string>> seen;
  for (const auto& slice : slices) {
    check_slice(slice, rank);
    if (!seen.emplace(slice.kind, slice.fqn).second) {
      fail(slice, "rank " + std::to_string(rank) + " gives this name twice",
           "store a tied tensor once and record its other names as aliases");
    }
  }
}

}  // namespace zero::checkpoint

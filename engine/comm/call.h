#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace zero {

enum class Operation : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kSplit,
  kDuplicate
};

// What a rank is about to do, in a form that ranks exchange and compare byte by byte
// before any data moves.
struct Call {
  uint64_t sequence;  // calls of this communicator before this one
  int64_t bytes;      // of a shard, or of the data
  uint64_t tag_hash;  // of the whole tag; `tag` may be cut
  Operation operation;
  // What else must agree: root, wire type or reduction, hashed to a byte.
  uint8_t variant;
  char tag[102];  // zero-padded
};
static_assert(sizeof(Call) == 128 && std::has_unique_object_representations_v<Call>);

Call make_call(uint64_t sequence, Operation operation, int variant, int64_t bytes,
               const std::string& tag);

const char* name_of(Operation operation);      // "all_gather"
std::string description_of(const Call& call);  // "all_gather 'blocks.4' (1024 bytes)"

// Throws Error(kDiverged), naming the first two calls that differ, unless all ranks make
// the same one.
void require_same_call(std::span<const Call> call_of_rank);

}  // namespace zero

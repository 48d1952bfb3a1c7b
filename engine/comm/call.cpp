#include "engine/comm/call.h"

#include <cstring>

#include "engine/errors.h"

namespace zero {

namespace {

// FNV-1a
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

bool same(const Call& a, const Call& b) { return std::memcmp(&a, &b, sizeof(Call)) == 0; }

// The variant and the sequence number are told only where nothing else differs.
std::string rank_text(const std::string& rank, const Call& call, bool is_detailed) {
  std::string text = "rank " + rank + " " + description_of(call);
  if (is_detailed) {
    text += " [call " + std::to_string(call.sequence) + ", variant " +
            std::to_string(call.variant) + "]";
  }
  return text;
}

}  // namespace

Call make_call(uint64_t sequence, Operation operation, int variant, int64_t bytes,
               const std::string& tag) {
  Call call{};
  call.sequence = sequence;
  call.bytes = bytes;
  call.tag_hash = hash_of(tag);
  call.operation = operation;
  call.variant = static_cast<uint8_t>(variant);
  tag.copy(call.tag, sizeof(call.tag));
  return call;
}

const char* name_of(Operation operation) {
  static constexpr const char* kNames[] = {"all_gather", "reduce_scatter", "all_reduce",
                                           "broadcast",  "barrier",        "split",
                                           "duplicate"};
  const auto index = static_cast<size_t>(operation);
  return index < std::size(kNames) ? kNames[index] : "unknown operation";
}

std::string description_of(const Call& call) {
  const std::string tag(call.tag, strnlen(call.tag, sizeof(call.tag)));
  return std::string(name_of(call.operation)) + " '" + tag + "' (" +
         std::to_string(call.bytes) + " bytes)";
}

void require_same_call(std::span<const Call> call_of_rank) {
  const Call& first = call_of_rank[0];
  for (size_t rank = 1; rank < call_of_rank.size(); ++rank) {
    const Call& other = call_of_rank[rank];
    if (same(first, other)) continue;
    const bool is_detailed = description_of(first) == description_of(other);
    throw Error(
        ExitCode::kDiverged,
        "ranks diverged: " + rank_text("0", first, is_detailed) + ", " +
            rank_text(std::to_string(rank), other, is_detailed),
        "call " + std::to_string(first.sequence) + " of the communicator",
        "all ranks must run the same units in the same order; look for a branch that "
        "depends on the rank or on its data");
  }
}

}  // namespace zero

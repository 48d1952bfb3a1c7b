#include "engine/comm/call.h"

#include <cstring>

#include "base/hash.h"
#include "base/text.h"
#include "zero/errors.h"

namespace zero {

namespace {

// The variant and the sequence number are told only where nothing else differs.
std::string rank_text(size_t rank, const Call& call, bool is_detailed) {
  const std::string text = text_of("rank ", rank, " ", description_of(call));
  if (!is_detailed) return text;
  return text_of(text, " [call ", call.sequence, ", variant ", int{call.variant}, "]");
}

}  // namespace

Call make_call(uint64_t sequence, Operation operation, int variant, int64_t bytes,
               const std::string& tag) {
  Call call{};
  call.sequence = sequence;
  call.bytes = bytes;
  call.tag_hash = hash_of(tag.data(), tag.size());
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
  return text_of(name_of(call.operation), " '", tag, "' (", call.bytes, " bytes)");
}

void require_same_call(std::span<const Call> call_of_rank) {
  const Call& first = call_of_rank[0];
  for (size_t rank = 1; rank < call_of_rank.size(); ++rank) {
    const Call& other = call_of_rank[rank];
    if (std::memcmp(&first, &other, sizeof(Call)) == 0) continue;
    const bool is_detailed = description_of(first) == description_of(other);
    throw Error(
        ExitCode::kDiverged,
        "ranks diverged: " + rank_text(0, first, is_detailed) + ", " +
            rank_text(rank, other, is_detailed),
        text_of("call ", first.sequence, " of the communicator"),
        "all ranks must run the same units in the same order; look for a branch that "
        "depends on the rank or on its data");
  }
}

}  // namespace zero

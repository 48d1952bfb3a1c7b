#include "checkpoint/slices.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

// What one rank has of a tensor.
struct Part {
  int rank;
  const StoredTensor* tensor;

  const Piece& piece() const { return tensor->pieces.front(); }
};

[[noreturn]] void fail(const StoredTensor& tensor, const std::string& problem,
                       const std::string& cure = {}) {
  throw CheckpointError("", tensor.fqn, text_of(name_of(tensor.kind), ": ", problem),
                        cure);
}

void check_slice(const Slice& slice, int rank) {
  const StoredTensor& tensor = slice.tensor;
  check_name(tensor.fqn);
  const auto full = checked_numel(tensor.shape);
  if (!full) fail(tensor, "the shape " + to_string(tensor.shape) + " is not possible");
  if (slice.begin < 0 || slice.numel < 0 || slice.begin > *full ||
      slice.numel > *full - slice.begin) {
    fail(tensor,
         text_of("rank ", rank, " has ", slice.numel, " elements from ", slice.begin,
                 ", the shape ", to_string(tensor.shape), " has ", *full));
  }
  if (is_replicated(tensor.kind) && (rank != 0 || slice.numel != *full)) {
    fail(tensor, "is not sharded", "let rank 0 alone give it, whole");
  }
}

void require_every_rank(const std::vector<ShardReport>& reports) {
  const int world_size = static_cast<int>(reports.size());
  if (reports.empty()) throw CheckpointError("", "", "there are no shard reports");
  for (int i = 0; i < world_size; ++i) {
    const ShardReport& report = reports[static_cast<size_t>(i)];
    if (report.rank == i && report.world_size == world_size) continue;
    throw CheckpointError("", "",
                          text_of("report ", i, " of ", world_size, " comes from rank ",
                                  report.rank, " of ", report.world_size),
                          "gather one report per rank, in the order of the ranks");
  }
}

std::string described(const Part& part) {
  return text_of("rank ", part.rank, " has ", name_of(part.tensor->dtype), " ",
                 to_string(part.tensor->shape));
}

void require_agreement(const Part& a, const Part& b) {
  if (a.tensor->shape == b.tensor->shape && a.tensor->dtype == b.tensor->dtype) return;
  fail(*a.tensor, described(a) + ", " + described(b));
}

// Parts that are not empty, in the order of their elements: each begins where the one
// before it ends.
void require_tiles(const StoredTensor& tensor, const std::vector<Part>& parts) {
  int64_t end = 0;
  int last_rank = -1;
  for (const auto& part : parts) {
    const int64_t begin = part.piece().begin;
    if (begin > end) {
      fail(tensor, text_of("nobody has elements ", end, " to ", begin - 1, "; rank ",
                           part.rank, " has the next"));
    }
    if (begin < end) {
      fail(tensor, text_of("rank ", last_rank, " and rank ", part.rank,
                           " both have element ", begin));
    }
    end += part.piece().bytes / size_of(tensor.dtype);
    last_rank = part.rank;
  }
  if (end < tensor.numel())
    fail(tensor, text_of("nobody has elements ", end, " to ", tensor.numel() - 1));
}

StoredTensor join(std::vector<Part> parts) {
  StoredTensor whole = *parts.front().tensor;
  for (const auto& part : parts) require_agreement(parts.front(), part);
  std::erase_if(parts, [](const Part& part) { return part.tensor->pieces.empty(); });
  std::ranges::sort(parts, {}, [](const Part& part) {
    return std::pair(part.piece().begin, part.rank);
  });
  require_tiles(whole, parts);
  whole.pieces.clear();
  for (const auto& part : parts) whole.pieces.push_back(part.piece());
  return whole;
}

}  // namespace

int64_t bytes_of(const std::vector<Slice>& slices) {
  int64_t bytes = 0;
  for (const Slice& slice : slices) bytes += slice.num_bytes();
  return bytes;
}

void check_slices(const std::vector<Slice>& slices, int rank) {
  std::set<std::pair<Kind, std::string>> seen;
  for (const auto& slice : slices) {
    check_slice(slice, rank);
    if (!seen.emplace(slice.tensor.kind, slice.tensor.fqn).second) {
      fail(slice.tensor, text_of("rank ", rank, " gives this name twice"),
           "store a tied tensor once and record its other names as aliases");
    }
  }
}

std::vector<StoredTensor> join_slices(const std::vector<ShardReport>& reports) {
  require_every_rank(reports);
  std::map<std::pair<Kind, std::string>, std::vector<Part>> parts;
  for (const auto& report : reports) {
    for (const auto& tensor : report.tensors)
      parts[{tensor.kind, tensor.fqn}].push_back({report.rank, &tensor});
  }
  std::vector<StoredTensor> tensors;
  for (auto& [name, of_tensor] : parts) tensors.push_back(join(std::move(of_tensor)));
  return tensors;
}

}  // namespace zero::checkpoint

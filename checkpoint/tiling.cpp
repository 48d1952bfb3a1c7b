#include "checkpoint/tiling.h"

#include <algorithm>
#include <map>
#include <utility>

#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

struct Part {
  int rank;
  const SliceReport* slice;
};

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

[[noreturn]] void fail(const SliceReport& slice, const std::string& problem) {
  throw CheckpointError("", slice.fqn, std::string(name_of(slice.kind)) + ": " + problem);
}

std::string described(const SliceReport& slice) {
  return std::string(name_of(slice.dtype)) + " " + to_string(slice.shape);
}

void require_every_rank(const std::vector<ShardReport>& reports) {
  for (size_t i = 0; i < reports.size(); ++i) {
    const bool is_next = reports[i].rank == static_cast<int>(i) &&
                         reports[i].world_size == static_cast<int>(reports.size());
    if (is_next) continue;
    throw CheckpointError("", "",
                          "report " + std::to_string(i) + " of " +
                              std::to_string(reports.size()) + " comes from " +
                              rank_text(reports[i].rank) + " of " +
                              std::to_string(reports[i].world_size),
                          "gather one report per rank, in the order of the ranks");
  }
  if (reports.empty()) throw CheckpointError("", "", "there are no shard reports");
}

void require_agreement(const Part& a, const Part& b) {
  if (a.slice->shape == b.slice->shape && a.slice->dtype == b.slice->dtype) return;
  fail(*a.slice, rank_text(a.rank) + " has " + described(*a.slice) + ", " +
                     rank_text(b.rank) + " has " + described(*b.slice));
}

// Parts that are not empty, in the order of their elements: each begins where the one
// before it ends.
void require_tiles(const SliceReport& tensor, const std::vector<Part>& parts) {
  int64_t end = 0;
  int last_rank = -1;
  for (const auto& [rank, slice] : parts) {
    if (slice->begin > end) {
      fail(*slice, "nobody has elements " + std::to_string(end) + " to " +
                       std::to_string(slice->begin - 1) + "; " + rank_text(rank) +
                       " has the next");
    }
    if (slice->begin < end) {
      fail(*slice, rank_text(last_rank) + " and " + rank_text(rank) +
                       " both have element " + std::to_string(slice->begin));
    }
    end += slice->numel;
    last_rank = rank;
  }
  const int64_t numel = checked_numel(tensor.shape).value();
  if (end < numel) {
    fail(tensor, "nobody has elements " + std::to_string(end) + " to " +
                     std::to_string(numel - 1));
  }
}

TensorEntry join(std::vector<Part> parts, int world_size) {
  const SliceReport& first = *parts.front().slice;
  for (const auto& part : parts) require_agreement(parts.front(), part);
  std::erase_if(parts, [](const Part& part) { return part.slice->numel == 0; });
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.slice->begin, a.rank) < std::pair(b.slice->begin, b.rank);
  });
  require_tiles(first, parts);
  TensorEntry tensor{first.kind, first.fqn, first.dtype, first.shape, {}};
  for (const auto& [rank, slice] : parts) {
    tensor.pieces.push_back({shard_file(rank, world_size), slice->begin, slice->offset,
                             slice->numel * size_of(slice->dtype), slice->hashes});
  }
  return tensor;
}

}  // namespace

std::vector<TensorEntry> join_slices(const std::vector<ShardReport>& reports) {
  require_every_rank(reports);
  std::map<std::pair<Kind, std::string>, std::vector<Part>> parts;
  for (const auto& report : reports) {
    for (const auto& slice : report.slices) {
      parts[{slice.kind, slice.fqn}].push_back({report.rank, &slice});
    }
  }
  std::vector<TensorEntry> tensors;
  for (auto& [name, of_tensor] : parts) {
    tensors.push_back(join(std::move(of_tensor), static_cast<int>(reports.size())));
  }
  return tensors;
}

}  // namespace zero::checkpoint

#include "engine/plan/flat_layout.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace zero {

int64_t ParamShape::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

FlatLayout lay_out(std::vector<ParamShape> params, int world_size) {
  assert(world_size >= 1);
  FlatLayout layout;
  int64_t end = 0;
  for (const ParamShape& param : params) {
    layout.offsets.push_back(end);
    end += round_up(param.numel(), kAlignNumel);
  }
  layout.params = std::move(params);
  layout.numel = round_up(end, kAlignNumel * world_size);
  layout.shard_numel = layout.numel / world_size;
  return layout;
}

std::vector<Piece> pieces_of(const FlatLayout& layout, int rank) {
  const int64_t begin = rank * layout.shard_numel, end = begin + layout.shard_numel;
  std::vector<Piece> pieces;
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const int64_t first = std::max(begin, layout.offsets[i]);
    const int64_t last = std::min(end, layout.offsets[i] + layout.params[i].numel());
    if (first >= last) continue;
    pieces.push_back(
        {static_cast<int>(i), first - layout.offsets[i], first - begin, last - first});
  }
  return pieces;
}

}  // namespace zero

#include "engine/plan/flat_layout.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace zero {

int64_t ParamShape::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

FlatLayout lay_out(std::vector<ParamShape> params, const Mesh& mesh) {
  assert(mesh.group >= 1 && mesh.size % mesh.group == 0);
  FlatLayout layout;
  layout.mesh = mesh;
  int64_t end = 0;
  for (const ParamShape& param : params) {
    layout.offsets.push_back(end);
    end += round_up(param.numel(), kAlignNumel);
  }
  layout.params = std::move(params);
  layout.numel = round_up(end, kAlignNumel * mesh.size);
  layout.shard_numel = layout.numel / mesh.size;
  layout.group_numel = layout.numel / mesh.group;
  return layout;
}

std::optional<ParamPiece> piece_of(const FlatLayout& layout, int rank, int param) {
  const int64_t begin = layout.begin_of(rank), end = begin + layout.shard_numel;
  const int64_t offset = layout.offsets[param];
  const int64_t first = std::max(begin, offset);
  const int64_t last = std::min(end, offset + layout.params[param].numel());
  if (first >= last) return {};
  return ParamPiece{param, first - offset, first - begin, last - first};
}

std::vector<ParamPiece> pieces_of(const FlatLayout& layout, int rank) {
  std::vector<ParamPiece> pieces;
  for (int i = 0; i < std::ssize(layout.params); ++i) {
    if (const auto piece = piece_of(layout, rank, i)) pieces.push_back(*piece);
  }
  return pieces;
}

}  // namespace zero

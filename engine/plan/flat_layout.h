#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/mesh.h"

namespace zero {

// Every parameter and every shard starts on a boundary of this many elements, 256 bytes
// in 16 bits: as far as cuBLAS looks at an address to choose a product's steps. So
// weights give the same bits in a slot and where their shard lies. Shards are aligned for
// SIMD, and the 64-element leaves of the gradient norm never straddle two ranks.
inline constexpr int64_t kAlignNumel = 128;

inline int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct ParamShape {
  std::string fqn;
  std::vector<int64_t> shape;
  int64_t numel() const;
};

// Where the parameters of one unit lie in its flat tensor.
//
//   [ param 0 | pad to 128 | param 1 | pad to 128 | ... | pad to ranks * 128 ]
//
// A rank owns one slice of shard_numel elements, and has group_numel of the weights that
// its group gathers: member s of every group those from s * group_numel on. Padding is
// zero in weights, gradients and moments.
struct FlatLayout {
  std::vector<ParamShape> params;
  std::vector<int64_t> offsets;  // of each parameter in the flat tensor
  Mesh mesh;
  int64_t numel = 0;  // with all padding: ranks * shard_numel
  int64_t shard_numel = 0;
  int64_t group_numel = 0;

  // The first element of a rank's slice.
  int64_t begin_of(int rank) const { return mesh.slice_of(rank) * shard_numel; }
  // The same among the weights that it has for its group.
  int64_t begin_in_group(int rank) const { return mesh.group_of(rank) * shard_numel; }
};

FlatLayout lay_out(std::vector<ParamShape> params, const Mesh& mesh);

// The part of one parameter that lies in one rank's shard.
struct ParamPiece {
  int param = 0;            // index in FlatLayout::params
  int64_t param_begin = 0;  // first element, in the flattened parameter
  int64_t shard_begin = 0;  // the same element, in the shard
  int64_t numel = 0;        // never 0, never padding
};

// In order of shard_begin; empty for a rank that owns nothing but padding.
std::vector<ParamPiece> pieces_of(const FlatLayout& layout, int rank);
// That of one parameter; nothing where none of it lies there.
std::optional<ParamPiece> piece_of(const FlatLayout& layout, int rank, int param);

}  // namespace zero

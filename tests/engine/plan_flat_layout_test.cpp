#include <gtest/gtest.h>

#include <numeric>

#include "base/dtype.h"
#include "engine/plan/flat_layout.h"

namespace zero::plan_flat_layout_test {
namespace {

// What rank by rank concatenation of the pieces gives back of each parameter.
std::vector<std::vector<int64_t>> reassemble(const FlatLayout& layout, int world_size) {
  std::vector<std::vector<int64_t>> seen(layout.params.size());
  for (int rank = 0; rank < world_size; ++rank) {
    for (const ParamPiece& piece : pieces_of(layout, rank)) {
      for (int64_t i = 0; i < piece.numel; ++i) {
        EXPECT_EQ(rank * layout.shard_numel + piece.shard_begin + i,
                  layout.offsets[piece.param] + piece.param_begin + i);
        seen[piece.param].push_back(piece.param_begin + i);
      }
    }
  }
  return seen;
}

TEST(FlatLayout, EveryElementHasExactlyOneOwner) {
  const std::vector<ParamShape> params{{"a", {8}},       {"b", {3}},  {"c", {1}},
                                       {"d", {257, 64}}, {"e", {15}}, {"f", {}}};
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const FlatLayout layout = lay_out(params, world_size);
    const auto seen = reassemble(layout, world_size);
    for (size_t i = 0; i < params.size(); ++i) {
      std::vector<int64_t> all(params[i].numel());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(seen[i], all) << params[i].fqn << " on " << world_size;
    }
  }
}

// What one member of all groups owns, group by group, is what it has for its group.
TEST(FlatLayout, SlicesOfAMemberAreNeighbours) {
  const FlatLayout layout = lay_out({{"a", {1000}}}, Mesh(6, 2));
  EXPECT_EQ(layout.numel, 6 * 256);
  EXPECT_EQ(layout.shard_numel, 256);
  EXPECT_EQ(layout.group_numel, 3 * 256);
  const int64_t expected[] = {0, 3, 1, 4, 2, 5};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(layout.begin_of(rank), expected[rank] * 256);
    EXPECT_EQ(layout.begin_in_group(rank), rank / 2 * 256);
    const int64_t member = rank % 2;
    EXPECT_EQ(layout.begin_of(rank),
              member * layout.group_numel + layout.begin_in_group(rank));
  }
  EXPECT_EQ(pieces_of(layout, 2).front().param_begin, 256);
  EXPECT_EQ(pieces_of(layout, 1).front().numel, 1000 - 3 * 256);
}

TEST(FlatLayout, AlignsParametersAndShards) {
  const FlatLayout layout = lay_out({{"a", {129}}, {"b", {1}}}, 3);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 256}));
  EXPECT_EQ(layout.numel, 384);
  EXPECT_EQ(layout.shard_numel, 128);
  EXPECT_EQ(kAlignNumel * size_of(DType::kBf16), 256) << "what cuBLAS looks at";
}

TEST(FlatLayout, OffsetsDoNotDependOnTheNumberOfRanks) {
  const std::vector<ParamShape> params{{"a", {100, 3}}, {"b", {7}}, {"c", {64}}};
  for (int world_size = 2; world_size <= 5; ++world_size) {
    EXPECT_EQ(lay_out(params, world_size).offsets, lay_out(params, 1).offsets);
  }
}

TEST(FlatLayout, ARankMayOwnNothing) {
  const FlatLayout layout = lay_out({{"a", {8}}}, 4);
  EXPECT_EQ(pieces_of(layout, 0).size(), 1u);
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(pieces_of(layout, rank).empty());
}

TEST(FlatLayout, NothingAndEmptyParametersAreLegal) {
  EXPECT_EQ(lay_out({}, 4).numel, 0);
  const FlatLayout layout = lay_out({{"none", {0, 5}}, {"a", {2}}}, 2);
  EXPECT_EQ(layout.numel, 256);
  EXPECT_EQ(pieces_of(layout, 0).front().param, 1);
}

}  // namespace
}  // namespace zero::plan_flat_layout_test

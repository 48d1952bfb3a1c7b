#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/comm/transport.h"
#include "zero/errors.h"

namespace zero::comm_transport_test {
namespace {

RankCall reduction(int variant, const std::string& tag = "norm") {
  return make_call(7, Operation::kAllReduce, variant, 8, tag);
}

std::string divergence(const std::vector<RankCall>& calls) {
  try {
    require_same_call(calls);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    EXPECT_EQ(error.where(), "call 7 of the communicator");
    return error.problem();
  }
  return "";
}

TEST(Transport, EqualCallsAreNoDivergence) {
  EXPECT_EQ(divergence({reduction(1), reduction(1), reduction(1)}), "");
}

TEST(Transport, TheFirstRankThatDiffersIsTold) {
  EXPECT_EQ(divergence({reduction(1), reduction(1), reduction(1, "loss")}),
            "ranks diverged: rank 0 all_reduce 'norm' (8 bytes), "
            "rank 2 all_reduce 'loss' (8 bytes)");
}

TEST(Transport, WhereNothingElseDiffersTheVariantIsTold) {
  EXPECT_EQ(divergence({reduction(1), reduction(2)}),
            "ranks diverged: rank 0 all_reduce 'norm' (8 bytes) [call 7, variant 1], "
            "rank 1 all_reduce 'norm' (8 bytes) [call 7, variant 2]");
}

}  // namespace
}  // namespace zero::comm_transport_test

#include "offload/sweep.h"

#include <gmock/gmock.h>

#include <vector>

#include "offload/thread_pool.h"
#include "offload/update.h"

namespace zero::sweep_test {
namespace {

using ::testing::Each;

TEST(Sweep, LeavesEveryValueAndWritesTheCopy) {
  constexpr int64_t kNumel = 200'001;
  std::vector<float> grad(kNumel, 3), master(kNumel, 1.5f), exp_avg(kNumel, -2),
      exp_avg_sq(kNumel, 7);
  std::vector<uint16_t> copy(kNumel);
  const UpdatePiece piece{.grad = grad.data(),
                          .master = master.data(),
                          .state = {exp_avg.data(), exp_avg_sq.data()},
                          .copy_bf16 = copy.data(),
                          .numel = kNumel};
  ThreadPool threads(2);
  sweep(piece, threads);
  EXPECT_THAT(copy, Each(0x3fc0));
  EXPECT_THAT(master, Each(1.5f));
  EXPECT_THAT(exp_avg, Each(-2));
  EXPECT_THAT(exp_avg_sq, Each(7));
}

TEST(Sweep, CountsWhatGoesThroughMemory) {
  uint16_t copy[10];
  EXPECT_EQ(swept_bytes({.numel = 10}), 280);
  EXPECT_EQ(swept_bytes({.copy_bf16 = copy, .numel = 10}), 300);
}

}  // namespace
}  // namespace zero::sweep_test

#include "launcher/bench/sweep.h"

#include <gmock/gmock.h>

#include <vector>

#include "offload/thread_pool.h"

namespace zero::launcher {
namespace {

using ::testing::Each;

TEST(Sweep, LeavesEveryValueAndWritesTheCopy) {
  constexpr int64_t kNumel = 200'001;
  std::vector<float> grad(kNumel, 3), master(kNumel, 1.5f), exp_avg(kNumel, -2),
      exp_avg_sq(kNumel, 7);
  std::vector<uint16_t> copy(kNumel);
  SweptArrays arrays{grad.data(),       master.data(), exp_avg.data(),
                     exp_avg_sq.data(), copy.data(),   kNumel};
  ThreadPool threads(2);
  sweep(arrays, threads);
  EXPECT_THAT(copy, Each(0x3fc0));
  EXPECT_THAT(master, Each(1.5f));
  EXPECT_THAT(exp_avg, Each(-2));
  EXPECT_THAT(exp_avg_sq, Each(7));
}

TEST(Sweep, CountsWhatGoesThroughMemory) {
  SweptArrays arrays;
  arrays.numel = 10;
  EXPECT_EQ(arrays.num_bytes(), 280);
  uint16_t copy[10];
  arrays.copy = copy;
  EXPECT_EQ(arrays.num_bytes(), 300);
}

}  // namespace
}  // namespace zero::launcher

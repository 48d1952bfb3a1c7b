#include <gtest/gtest.h>

#include <vector>

#include "engine/device/host_device.h"
#include "engine/step/gradient_landing.h"
#include "offload/convert.h"
#include "zero/ranks.h"

namespace zero::step_gradient_landing_test {
namespace {

// Many pieces, and not a multiple of one.
constexpr int64_t kPieceBytes = 512, kNumel = 10 * kPieceBytes / 4 + 64 + 7;

class GradientLandingTest : public ::testing::Test {
 protected:
  GradientLandingTest() {
    for (int64_t i = 0; i < kNumel; ++i) {
      left.push_back(static_cast<float>(i % 97) * 0.25f);
      values.push_back(static_cast<float>(i % 31) - 7.5f);
    }
  }

  void land(const Addition& addition, const void* from, DType type) {
    landing_.add(addition, from, type, kNumel, "w");
    out_->synchronize();
    worker_->synchronize();
  }
  double norm_of(GradientNorm norm) { return norm.reduce(1, *ranks_); }

  std::vector<float> left, values, sum = std::vector<float>(kNumel, -1.0f);

 private:
  const std::unique_ptr<Device> device_ = make_host_device({.chaos_seed = 3});
  const std::unique_ptr<Stream> out_ = device_->make_stream("out");
  const std::unique_ptr<HostStream> worker_ = device_->make_worker("gradients");
  ThreadPool threads_{2};
  GradientLanding landing_{*device_, *out_, *worker_, threads_, kPieceBytes};
  const std::unique_ptr<Ranks> ranks_ = make_one_rank();
};

TEST_F(GradientLandingTest, AddsEveryPieceInItsPlace) {
  land({.left = left.data(), .sum = sum.data()}, values.data(), DType::kFp32);
  for (int64_t i = 0; i < kNumel; ++i) ASSERT_EQ(sum[i], left[i] + values[i]) << i;
  land({.left = sum.data(), .sum = sum.data()}, values.data(), DType::kFp32);
  for (int64_t i = 0; i < kNumel; ++i)
    ASSERT_EQ(sum[i], left[i] + values[i] + values[i]) << i;
}

TEST_F(GradientLandingTest, TakesTheNormOfAll) {
  GradientNorm norm(NormType::kL2), whole(NormType::kL2);
  land({.sum = sum.data(), .norm = &norm}, values.data(), DType::kFp32);
  whole.add(values.data(), kNumel);
  EXPECT_EQ(sum, values);
  EXPECT_EQ(norm_of(norm), norm_of(whole));
}

TEST_F(GradientLandingTest, TakesAndKeepsBf16) {
  std::vector<uint16_t> narrow(kNumel), kept(kNumel);
  convert_to_bf16(values.data(), narrow.data(), kNumel);
  land({.left = left.data(), .sum_bf16 = kept.data()}, narrow.data(), DType::kBf16);
  for (int64_t i = 0; i < kNumel; ++i) {
    uint16_t expected = 0;
    const float added = left[i] + bf16_to_float(narrow[i]);
    convert_to_bf16(&added, &expected, 1);
    ASSERT_EQ(kept[i], expected) << i;
  }
}

}  // namespace
}  // namespace zero::step_gradient_landing_test

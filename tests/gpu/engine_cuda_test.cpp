// Training on a GPU against the same on the host. Arithmetic differs, so numbers are
// close, not equal; what the optimizer makes of a gradient near 0 may differ more, so
// parameters are left to the losses of later steps.
#include <gtest/gtest.h>

#include "tests/engine/traffic_story.h"

namespace zero::testing::engine_cuda_test {
namespace {

class EngineOnAGpu : public ::testing::Test {
 protected:
  EngineOnAGpu() { options.stream_always = true; }

  Trained train_on(DeviceChoice device) {
    options.device = device;
    return train(1, options, work);
  }
  static void expect_similar(const Trained& a, const Trained& b, double tolerance) {
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (size_t step = 0; step < a.losses.size(); ++step) {
      EXPECT_NEAR(a.losses[step] / b.losses[step], 1, tolerance) << "step " << step;
      EXPECT_NEAR(a.norms[step] / b.norms[step], 1, 10 * tolerance) << "step " << step;
    }
  }

  Work work;
  Options options = small_options(work);
};

TEST_F(EngineOnAGpu, TrainsAsOnTheHost) {
  expect_similar(train_on(DeviceChoice::kCuda), train_on(DeviceChoice::kCpu), 1e-4);
}

TEST_F(EngineOnAGpu, TrainsInBf16) {
  options.dtype = options.reduce_dtype = DType::kBf16;
  expect_similar(train_on(DeviceChoice::kCuda), train_on(DeviceChoice::kCpu), 5e-3);
}

TEST_F(EngineOnAGpu, RecomputationPrefetchAndChaosChangeNothing) {
  const Trained expected = train_on(DeviceChoice::kCuda);
  options.prefetch = 0;
  expect_similar(train_on(DeviceChoice::kCuda), expected, 1e-5);
  options.recompute.every = 2;
  options.offload_activations = true;
  options.offload_min_bytes = 1;
  expect_similar(train_on(DeviceChoice::kCuda), expected, 1e-5);
  options.offload_activations = false;
  options.recompute = Recompute::kNone;
  expect_similar(train_on(DeviceChoice::kCuda), expected, 1e-5);
  options.chaos_seed = 1;
  expect_similar(train_on(DeviceChoice::kCuda), expected, 1e-5);
}

TEST_F(EngineOnAGpu, MovesWhatWasPlanned) {
  options.device = DeviceChoice::kCuda;
  expect_planned_traffic_throughout(1, options);
}

TEST_F(EngineOnAGpu, TakesWhatWasPlanned) {
  options.device = DeviceChoice::kCuda;
  train(1, options, work,
        {.before_step_end = {}, .after_step = [](Engine& engine, Gpt2Impl&, int) {
           expect_planned_bytes(engine);
         }});
}

}  // namespace
}  // namespace zero::testing::engine_cuda_test

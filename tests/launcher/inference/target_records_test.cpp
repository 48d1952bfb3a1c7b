#include "launcher/inference/target_records.h"

#include <gtest/gtest.h>

#include <limits>

namespace zero::launcher {
namespace {

TEST(TargetRecords, TellWhatFollowsEachToken) {
  data::Batch batch = data::empty_batch(3, 3);
  batch.inputs = {5, 7, 9, 1, 2, 3, 0, 0, 0};
  batch.targets = {-1, 9, 2, 2, -1, -1, -1, -1, -1};
  const std::vector<float> losses = {0, 0.5, 2.25, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(target_records(batch, losses, 4, 2),
            "{\"sample\": 4, \"tokens\": [5, 7, 9], \"targets\": [null, 9, 2], "
            "\"log_probs\": [null, -0.5, -2.25]}\n"
            "{\"sample\": 5, \"tokens\": [1], \"targets\": [2], \"log_probs\": [0]}\n")
      << "what stands behind the last target is left out, and so is the third row";
}

TEST(TargetRecords, AreJsonWhateverAModelSays) {
  data::Batch batch = data::empty_batch(1, 2);
  batch.inputs = {1, 2};
  batch.targets = {2, 3};
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(target_records(batch, std::vector<float>{infinite, 1}, 0, 1),
            "{\"sample\": 0, \"tokens\": [1, 2], \"targets\": [2, 3], "
            "\"log_probs\": [null, -1]}\n");
}

}  // namespace
}  // namespace zero::launcher

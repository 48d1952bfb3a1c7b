#include <gtest/gtest.h>

#include <cmath>

#include "launcher/inference/predict.h"

namespace zero::launcher::prediction_format_test {
namespace {

TEST(Predictions, AnImageWhoseLogitsAreNoNumbersHasNoClass) {
  const PredictionFormat format =
      json_lines({[](int64_t) { return "a.png"; }, {"cat", "dog"}});
  EXPECT_EQ(format.row(0, std::vector<float>{0, 0}),
            "{\"image\":\"a.png\",\"class\":\"cat\",\"index\":0,\"probability\":0.5}\n");
  EXPECT_EQ(format.row(0, std::vector<float>{0, NAN}),
            "{\"image\":\"a.png\",\"index\":null,\"probability\":null}\n");
}

}  // namespace
}  // namespace zero::launcher::prediction_format_test

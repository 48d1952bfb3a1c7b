#include <gtest/gtest.h>

#include "engine/step/gradient_norm.h"

namespace zero::step_gradient_norm_test {
namespace {

TEST(ClipCoefficient, IsTorchs) {
  EXPECT_EQ(clip_coefficient(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(clip_coefficient(1, 1), 1 / (1 + 1e-6));
  EXPECT_EQ(clip_coefficient(0.5, 1), 1);
  EXPECT_EQ(clip_coefficient(1e9, 0), 1) << "0 does not clip";
}

}  // namespace
}  // namespace zero::step_gradient_norm_test

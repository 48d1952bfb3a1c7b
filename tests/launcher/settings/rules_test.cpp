#include "launcher/settings/rules.h"

#include <gtest/gtest.h>

namespace zero::launcher::rules_test {
namespace {

TEST(Rules, AGroupSaysWhatHoldsForIts) {
  const auto all = parse_group("*.bias: lr=0.1x, weight-decay=0 freeze");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->pattern, "*.bias");
  EXPECT_EQ(all->lr_scale, 0.1);
  EXPECT_EQ(all->weight_decay, 0.0);
  EXPECT_TRUE(all->frozen);
  const auto slow = parse_group("h.0.*:lr=2x");
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->lr_scale, 2);
  EXPECT_FALSE(slow->weight_decay);
  EXPECT_FALSE(slow->frozen);
}

TEST(Rules, AUnitSaysWhatIsInside) {
  const auto all = parse_unit("h.0: dtype=fp32, reshard=false, offload=optimizer");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->pattern, "h.0");
  EXPECT_EQ(all->dtype, DType::kFp32);
  EXPECT_EQ(all->reshard, false);
  EXPECT_EQ(all->offload, Offload::kOptimizer);
  const auto one = parse_unit("(root): offload=none");
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->dtype);
  EXPECT_FALSE(one->reshard);
  EXPECT_EQ(one->offload, Offload::kNone);
  for (const std::string text : {"h.0", "h.0: dtype=fp16", "h.0: reshard", "h.0: lr=1x",
                                 "h.0: offload=host", "h.0: dtype=fp32 dtype=fp32"})
    EXPECT_FALSE(parse_unit(text)) << text;
}

TEST(Rules, OtherFormsAreNone) {
  for (const std::string text :
       {"", "*.bias", "*.bias:", ": freeze", "*.bias: lr=0.1", "*.bias: lr=x",
        "*.bias: lr=-1x", "*.bias: weight_decay=-1", "*.bias: weight_decay",
        "*.bias: freeze=true", "*.bias: momentum=0.5", "*.bias: freeze freeze",
        "*.bias: lr=nanx", "\xff: freeze"})
    EXPECT_FALSE(parse_group(text)) << text;
}

TEST(Rules, ThawsHaveAStepAndAPattern) {
  const auto thaw = parse_thaw("1000:model.layers.*:x");
  ASSERT_TRUE(thaw);
  EXPECT_EQ(thaw->step, 1000);
  EXPECT_EQ(thaw->pattern, "model.layers.*:x");
  EXPECT_TRUE(parse_thaw("0:*"));
  for (const std::string text : {"", "3", "3:", ":a", "-1:a", "x:a", "1.5:a", "3:\xff"})
    EXPECT_FALSE(parse_thaw(text)) << text;
}

}  // namespace
}  // namespace zero::launcher::rules_test

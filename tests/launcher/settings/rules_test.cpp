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

TEST(Rules, OtherFormsAreNone) {
  for (const std::string text :
       {"", "*.bias", "*.bias:", ": freeze", "*.bias: lr=0.1", "*.bias: lr=x",
        "*.bias: lr=-1x", "*.bias: weight_decay=-1", "*.bias: weight_decay",
        "*.bias: freeze=true", "*.bias: momentum=0.5", "*.bias: freeze freeze",
        "*.bias: lr=nanx", "\xff: freeze"})
    EXPECT_FALSE(parse_group(text)) << text;
}

}  // namespace
}  // namespace zero::launcher::rules_test

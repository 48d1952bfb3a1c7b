#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "engine/plan/unit_plan.h"
#include "zero/errors.h"

namespace zero::plan_unit_plan_test {
namespace {

using ::testing::HasSubstr;

// root { wte, blocks.0 {w, b}, blocks.1 {w, inner { w }} }
class UnitPlanTest : public ::testing::Test {
 protected:
  std::vector<UnitDescription> units{{"", "Model", -1},
                                     {"blocks.0", "BlockImpl", 0},
                                     {"blocks.1", "BlockImpl", 0},
                                     {"blocks.1.inner", "InnerImpl", 2}};
  std::vector<ParamDescription> params{
      param("wte.weight", {10, 4}, 0), param("blocks.0.w", {4, 4}, 1),
      param("blocks.0.b", {4}, 1), param("blocks.1.w", {4, 4}, 2),
      param("blocks.1.inner.w", {2, 4}, 3)};
  Options options;

  static ParamDescription param(const std::string& fqn, std::vector<int64_t> shape,
                                int unit) {
    return {fqn, std::move(shape), {fqn}, {unit}, true};
  }
  UnitPlan plan(int world_size = 2) {
    return make_unit_plan(units, params, options, world_size);
  }
  std::string error() {
    try {
      plan();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "no error";
  }
  // FQNs in the unit's part of this kind.
  static std::vector<std::string> names(const UnitPlan& plan, int unit,
                                        bool is_frozen = false,
                                        DType dtype = DType::kFp32) {
    std::vector<std::string> result;
    for (const int p : plan.units[unit].parts) {
      const PlannedPart& part = plan.parts[p];
      if (part.is_frozen != is_frozen || part.dtype != dtype) continue;
      for (const ParamShape& param : part.layout.params) result.push_back(param.fqn);
    }
    return result;
  }
};

TEST_F(UnitPlanTest, GivesEachParameterToItsInnermostUnit) {
  const UnitPlan p = plan();
  ASSERT_EQ(p.units.size(), 4u);
  EXPECT_THAT(names(p, 0), ::testing::ElementsAre("wte.weight"));
  EXPECT_THAT(names(p, 1), ::testing::ElementsAre("blocks.0.w", "blocks.0.b"));
  EXPECT_THAT(names(p, 3), ::testing::ElementsAre("blocks.1.inner.w"));
  EXPECT_EQ(p.units[3].depth, 2);
}

TEST_F(UnitPlanTest, WhatHoldsForSomeUnitsIsTheirs) {
  options.dtype = DType::kBf16;
  options.offload = Offload::kAll;
  options.unit_options = {{"blocks.1", DType::kFp32, false},
                          {"blocks.*", {}, {}, Offload::kOptimizer},
                          {"(root)", {}, {}, Offload::kNone}};
  const UnitPlan p = plan();
  const auto [root, first, second, inner] =
      std::tie(p.units[0], p.units[1], p.units[2], p.units[3]);
  EXPECT_EQ(second.dtype, DType::kFp32);
  EXPECT_EQ(second.outer_dtype, DType::kBf16);
  EXPECT_EQ(inner.dtype, DType::kBf16);
  EXPECT_EQ(inner.outer_dtype, DType::kFp32);
  EXPECT_THAT(names(p, 2), ::testing::ElementsAre("blocks.1.w"));
  EXPECT_TRUE(first.reshards);
  EXPECT_FALSE(second.reshards);
  EXPECT_EQ(root.offload, Offload::kNone);
  EXPECT_EQ(first.offload, Offload::kOptimizer);
  EXPECT_EQ(inner.offload, Offload::kOptimizer);
}

TEST_F(UnitPlanTest, GivesTiedParametersToTheClosestCommonAncestor) {
  params[3].names = {"blocks.1.w", "blocks.1.inner.tied"};
  params[3].units = {2, 3};
  params[1].names = {"blocks.0.w", "blocks.1.inner.other"};
  params[1].units = {1, 3};
  const UnitPlan p = plan();
  EXPECT_THAT(names(p, 2), ::testing::ElementsAre("blocks.1.w"));
  EXPECT_THAT(names(p, 0), ::testing::ElementsAre("wte.weight", "blocks.0.w"));
}

TEST_F(UnitPlanTest, ATiedParameterIsInAGroupUnderAnyOfItsNames) {
  params[1].names = {"blocks.0.w", "blocks.1.tied"};
  params[1].units = {1, 2};
  for (const char* name : {"blocks.0.w", "blocks.1.tied"}) {
    options.groups = {{name, 0.5, {}, false}};
    EXPECT_EQ(plan().rules[1].lr_scale, 0.5) << name;
  }
  options.groups = {{"blocks.0.w", 2, {}, true}, {"blocks.1.tied", 1, {}, true}};
  EXPECT_TRUE(plan().rules[1].frozen) << "by both, which is no contradiction";
}

TEST_F(UnitPlanTest, RefusesATiedParameterInTwoGroupsThatDiffer) {
  params[1].names = {"blocks.0.w", "blocks.1.tied"};
  params[1].units = {1, 2};
  for (const ParamGroup& other : {ParamGroup{"blocks.1.tied", 1, {}, true},
                                  ParamGroup{"blocks.1.tied", 1, {}, false},
                                  ParamGroup{"blocks.1.tied", 0.5, 0.25, false}}) {
    options.groups = {{"blocks.0.*", 0.5, {}, false}, other};
    EXPECT_THAT(error(), AllOf(HasSubstr("blocks.0.w"), HasSubstr("blocks.1.tied")));
  }
  options.groups = {{"blocks.0.w", 1, {}, true}, {"blocks.1.tied", 1, {}, false}};
  EXPECT_THAT(error(), HasSubstr("two parameter groups that differ"));
}

TEST_F(UnitPlanTest, WrapsByType) {
  options.auto_wrap.types = {"InnerImpl"};
  const UnitPlan p = plan();
  ASSERT_EQ(p.units.size(), 2u);
  EXPECT_EQ(p.units[1].fqn, "blocks.1.inner");
  EXPECT_EQ(p.unit_of, (std::vector<int>{0, 0, 0, 1}));
  options.auto_wrap.types = {"Block"};
  EXPECT_THAT(error(), HasSubstr("Block"));
}

// In blocks.0, and one deeper in blocks.1.inner; the order of the holders says nothing.
TEST_F(UnitPlanTest, AUnitLiesAsDeepAsItsDeepestPlace) {
  for (const std::vector<int>& holders : {std::vector<int>{1, 3}, {3, 1}}) {
    units.push_back({"blocks.0.shared", "SharedImpl", 0, holders});
    EXPECT_EQ(plan().units[4].depth, 3);
    options.auto_wrap.types = {"BlockImpl", "SharedImpl"};  // the inner one is merged
    EXPECT_EQ(plan().units[3].depth, 2);
    options.auto_wrap.types.clear();
    units.pop_back();
  }
}

TEST_F(UnitPlanTest, WrapsBySize) {
  options.auto_wrap.min_numel = 20;
  const UnitPlan p = plan();
  EXPECT_EQ(p.unit_of, (std::vector<int>{0, 1, 2, 2}));
  EXPECT_THAT(names(p, 2), ::testing::ElementsAre("blocks.1.w", "blocks.1.inner.w"));
}

TEST_F(UnitPlanTest, FirstMatchingGroupWins) {
  options.groups = {{"blocks.0.b", 3, {}, false},
                    {"blocks.0.*", 0.5, 0.25, false},
                    {"wte.*", 1, {}, true}};
  const UnitPlan p = plan();
  EXPECT_EQ(p.rules[1].lr_scale, 0.5);
  EXPECT_EQ(p.rules[1].weight_decay, 0.25);
  EXPECT_EQ(p.rules[2].lr_scale, 3);
  EXPECT_EQ(p.rules[2].weight_decay, 0);  // not a matrix
  EXPECT_EQ(p.rules[3].weight_decay, options.optimizer.weight_decay);
  EXPECT_THAT(names(p, 0, /*is_frozen=*/true), ::testing::ElementsAre("wte.weight"));
  EXPECT_THAT(names(p, 0), ::testing::IsEmpty());
}

TEST_F(UnitPlanTest, AGroupThawsNothing) {
  params[1].requires_grad = false;
  options.groups = {{"blocks.0.*", 0.5, {}, false}};
  const UnitPlan p = plan();
  EXPECT_THAT(names(p, 1, /*is_frozen=*/true), ::testing::ElementsAre("blocks.0.w"));
  EXPECT_THAT(names(p, 1), ::testing::ElementsAre("blocks.0.b"));
}

TEST_F(UnitPlanTest, KeepsSomeParametersInFp32) {
  params[2].stays_fp32 = true;
  EXPECT_EQ(plan().units[1].parts.size(), 1u);  // all are
  options.dtype = DType::kBf16;
  const UnitPlan p = plan();
  EXPECT_THAT(names(p, 1, false, DType::kBf16), ::testing::ElementsAre("blocks.0.w"));
  EXPECT_THAT(names(p, 1, false, DType::kFp32), ::testing::ElementsAre("blocks.0.b"));
  const PlannedPart& kept = p.parts[p.places[2].part];
  EXPECT_EQ(kept.tag, "blocks.0 (fp32)");
  EXPECT_EQ(full_bytes(kept), kept.layout.numel * 4);
}

TEST_F(UnitPlanTest, WhatStaysInFp32IsNotKeptInAnotherType) {
  params[2].stays_fp32 = true;
  options.frozen_dtype = DType::kBf16;
  EXPECT_EQ(plan().units[1].parts.size(), 1u) << "nothing is frozen";
  options.groups = {{"blocks.0.*", 1, {}, /*frozen=*/true}};
  const UnitPlan p = plan();
  const PlannedPart &rounded = p.parts[p.places[1].part],
                    &whole = p.parts[p.places[2].part];
  EXPECT_EQ(rounded.kept, DType::kBf16);
  EXPECT_TRUE(rounded.is_decoded());
  EXPECT_EQ(rounded.gathered_type(), DType::kBf16);
  EXPECT_EQ(whole.kept, DType::kFp32);
  EXPECT_FALSE(whole.is_decoded());
  EXPECT_EQ(whole.tag, "blocks.0 (frozen) (fp32)");
}

TEST_F(UnitPlanTest, RefusesAGroupWithoutParameters) {
  options.groups = {{"blocks.7.*", 1, {}, false}};
  EXPECT_THAT(error(), HasSubstr("'blocks.7.*' matches no parameter\n"));
  options.groups = {{"*", 1, {}, false}, {"blocks.0.b", 2, {}, false}};
  EXPECT_THAT(error(), HasSubstr("'blocks.0.b' matches no parameter that patterns before "
                                 "it have left"));
}

TEST_F(UnitPlanTest, RefusesNamesThatCannotBeKeys) {
  for (const std::string& bad :
       {std::string("a/b"), std::string("a\0b", 3), std::string("a..b"),
        std::string(".a"), std::string("a."), std::string("\xff\xfe"),
        std::string("tab\t"), std::string(1025, 'x'), std::string("\x1b[31m"),
        std::string()}) {
    EXPECT_THROW(check_fqn(bad), Error) << printable(bad);
  }
  try {
    check_fqn(std::string(100, 'x') + '/');
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), std::string(64, 'x') + "...");
  }
  for (const std::string& good :
       std::vector<std::string>{"layers.1.weight", "größe", "a b", "x[0]"})
    EXPECT_NO_THROW(check_fqn(good)) << good;
}

TEST_F(UnitPlanTest, RefusesTwoParametersOfOneName) {
  params[2].fqn = "blocks.0.w";
  params[2].names = {"blocks.0.w"};
  EXPECT_THAT(error(), HasSubstr("blocks.0.w"));
}

}  // namespace
}  // namespace zero::plan_unit_plan_test

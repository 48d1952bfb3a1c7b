#include <gtest/gtest.h>

#include <cstdlib>

#include "launcher/plan/run_plan.h"

namespace zero::launcher::offload_choice_test {
namespace {

constexpr MayStay kAll{true, true};

// States take 6 parts of a hundred of the GPU's room each, weights 1 part each.
bool fits(const Settings& settings, int num_units) {
  const double fraction =
      settings.offload == "none" ? 1 : std::atof(settings.device_state_fraction.c_str());
  const double states = 6 * num_units * fraction;
  const double weights = settings.offload == "all" ? num_units * fraction : num_units;
  return states + weights <= 100;
}

Settings chosen(Settings settings, const MayStay& may_stay, int num_units) {
  return choose_offload(settings, may_stay,
                        [&](const Settings& s) { return fits(s, num_units); });
}

TEST(OffloadChoice, TheFastestThatFits) {
  const Settings open;
  EXPECT_EQ(chosen(open, kAll, 14).offload, "none");
  EXPECT_EQ(chosen(open, kAll, 15).offload, "optimizer");
  EXPECT_EQ(chosen(open, kAll, 100).offload, "optimizer");
  EXPECT_EQ(chosen(open, kAll, 101).offload, "all");
  EXPECT_EQ(chosen(open, kAll, 15).device_state_fraction, "0");
}

TEST(OffloadChoice, OnlyWhatMayStay) {
  const Settings open;
  EXPECT_EQ(chosen(open, {true, false}, 1).offload, "optimizer");
  EXPECT_EQ(chosen(open, {false, false}, 1).offload, "all");
  Settings all_open;
  all_open.device_state_fraction = "auto";
  EXPECT_EQ(chosen(all_open, {true, false}, 20).device_state_fraction, "0");
  EXPECT_EQ(chosen(all_open, {false, false}, 20).device_state_fraction, "0");
}

TEST(OffloadChoice, AsLargeAFractionAsFits) {
  Settings settings;
  settings.device_state_fraction = "auto";
  const Settings some = chosen(settings, kAll, 20);  // 20 of weights: 80 of 120 are left
  EXPECT_EQ(some.offload, "optimizer");
  EXPECT_EQ(some.device_state_fraction, "0.65625");  // 42/64
  EXPECT_TRUE(fits(some, 20));
  settings.offload = "all";
  EXPECT_EQ(chosen(settings, kAll, 20).device_state_fraction, "0.703125");  // 45/64
  EXPECT_EQ(chosen(settings, kAll, 14).device_state_fraction, "1");
}

TEST(OffloadChoice, WhatIsToldStays) {
  for (const char* offload : {"none", "optimizer", "all"}) {
    Settings settings;
    settings.offload = offload;
    EXPECT_EQ(chosen(settings, kAll, 1000).offload, offload);
    EXPECT_EQ(chosen(settings, {false, false}, 1).offload, offload);  // refused later
  }
  Settings settings;
  settings.device_state_fraction = "0.5";
  EXPECT_EQ(chosen(settings, kAll, 20).device_state_fraction, "0.5");
  EXPECT_EQ(chosen(settings, kAll, 1000).offload, "all");
}

TEST(OffloadChoice, ForPeople) {
  EXPECT_EQ(describe_offload("none", "0"),
            "which keeps weights and states (offload none)");
  EXPECT_EQ(describe_offload("optimizer", "0.25"),
            "which keeps weights, and keeps 25% of the states (offload optimizer)");
  EXPECT_EQ(describe_offload("all", "0"), "to which weights stream (offload all)");
}

}  // namespace
}  // namespace zero::launcher::offload_choice_test

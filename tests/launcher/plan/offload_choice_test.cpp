#include <gtest/gtest.h>

#include <cstdlib>

#include "launcher/plan/run_plan.h"

namespace zero::launcher::offload_choice_test {
namespace {

constexpr MayStay kAll{true, true};

// States take 6 parts of a hundred of the GPU's room each, weights 1 part each; elsewhere
// states take as much of the host's.
HasRoom fits(const Settings& settings, int num_units, double host_room) {
  const double fraction =
      settings.offload == "none" ? 1 : std::atof(settings.device_state_fraction.c_str());
  const double states = 6 * num_units * fraction;
  const double weights = settings.offload == "all" ? num_units * fraction : num_units;
  return {states + weights <= 100, 6 * num_units - states <= host_room};
}

Settings chosen(Settings settings, const MayStay& may_stay, int num_units,
                double host_room = 1e9) {
  return choose_offload(settings, may_stay,
                        [&](const Settings& s) { return fits(s, num_units, host_room); });
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
  EXPECT_TRUE(fits(some, 20, 1e9).gpu);
  settings.offload = "all";
  EXPECT_EQ(chosen(settings, kAll, 20).device_state_fraction, "0.703125");  // 45/64
  EXPECT_EQ(chosen(settings, kAll, 14).device_state_fraction, "1");
}

TEST(OffloadChoice, AFractionThatMakesRoomInTheHost) {
  Settings settings;
  settings.device_state_fraction = "auto";
  settings.offload = "all";
  EXPECT_EQ(chosen(settings, kAll, 20, /*host_room=*/36).device_state_fraction,
            "0.703125");
  EXPECT_EQ(chosen(settings, kAll, 20, /*host_room=*/35).device_state_fraction, "0");
  settings.offload = "auto";  // weights, too: fewer states are left for the host
  EXPECT_EQ(chosen(settings, kAll, 20, 36).offload, "all");
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
  const auto described = [](const char* offload, const char* fraction,
                            const char* accumulate = "model", const char* sums = "host") {
    RunPlan plan;
    plan.settings.offload = offload;
    plan.settings.device_state_fraction = fraction;
    plan.settings.accumulate = accumulate;
    plan.settings.grad_sums = sums;
    return describe_offload(plan);
  };
  EXPECT_EQ(described("none", "0"), "which keeps weights and states (offload none)");
  EXPECT_EQ(described("optimizer", "0.25"),
            "which keeps weights, and keeps 25% of the states (offload optimizer)");
  EXPECT_EQ(described("all", "0"), "to which weights stream (offload all)");
  EXPECT_EQ(described("all", "0", "unit"),
            "to which weights stream (offload all); units take all passes at once "
            "(accumulate unit)");
  RunPlan drafting;
  drafting.settings.offload = "all";
  drafting.settings.speculate = "3MiB";
  drafting.engine = {{"masters", "host", 1 << 20}, {"drafts", "host", 3 << 20}};
  EXPECT_EQ(describe_offload(drafting),
            "to which weights stream (offload all); updates begin in backward, with 3.0 "
            "MiB for their drafts (speculate 3MiB)");
  EXPECT_EQ(described("all", "0", "model", "device"),
            "to which weights stream (offload all); passes are added up there "
            "(grad_sums device)");
}

// Of several passes.
class PassChoice : public ::testing::Test {
 protected:
  PassChoice() {
    settings.offload = "all";
    settings.accumulate = "auto";
  }
  // "accumulate, grad_sums"
  std::string chosen() {
    const Settings made =
        choose_passes(settings, may_stay, has_rows, num_passes, [&](const Settings& s) {
          return HasRoom{s.accumulate == "unit"    ? has_room_for_units
                         : s.grad_sums == "device" ? has_room_for_sums
                                                   : true,
                         true};
        });
    return made.accumulate + ", " + made.grad_sums;
  }

  Settings settings;
  MayStay may_stay = kAll;
  bool has_rows = true, has_room_for_units = true, has_room_for_sums = true;
  int64_t num_passes = 4;
};

TEST_F(PassChoice, UnitByUnitWhereWeightsStream) {
  EXPECT_EQ(chosen(), "unit, host");
  settings.offload = "optimizer";
  EXPECT_EQ(chosen(), "model, device");
  settings.offload = "none";
  EXPECT_EQ(chosen(), "model, host");
}

TEST_F(PassChoice, ElseSumsOnTheGpu) {
  has_rows = false;
  EXPECT_EQ(chosen(), "model, device");
  has_room_for_sums = false;
  EXPECT_EQ(chosen(), "model, host");
  has_rows = has_room_for_sums = true;
  has_room_for_units = false;
  EXPECT_EQ(chosen(), "model, device");
}

// Room for units is taken before that for states.
TEST_F(PassChoice, UnitByUnitBesideFewerStates) {
  settings.device_state_fraction = "auto";
  const Settings made = choose_passes(settings, kAll, true, 4, [&](const Settings& s) {
    const double states = std::atof(s.device_state_fraction.c_str());
    return HasRoom{states + (s.accumulate == "unit" ? 0.5 : 0.0) <= 1, true};
  });
  EXPECT_EQ(made.accumulate, "unit");
  EXPECT_EQ(made.device_state_fraction, "0.5");
}

TEST_F(PassChoice, OfOnePassNothing) {
  num_passes = 1;
  EXPECT_EQ(chosen(), "model, host");
}

TEST_F(PassChoice, WithoutAGpuNothing) {
  may_stay = {};
  EXPECT_EQ(chosen(), "model, host");
}

TEST_F(PassChoice, WhatIsToldStays) {
  settings.accumulate = "model";
  settings.grad_sums = "host";
  EXPECT_EQ(chosen(), "model, host");
  settings.accumulate = "unit";
  settings.grad_sums = "device";
  EXPECT_EQ(chosen(), "unit, device");
}

}  // namespace
}  // namespace zero::launcher::offload_choice_test

#include "launcher/settings/new_run.h"

#include <gtest/gtest.h>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::new_run_test {
namespace {

// `train` with these flags, beside --data d --out o.
Settings begun(const std::vector<std::string>& flags) {
  return settings_of({.flags = flags, .may_begin = true});
}

// The same where a run goes on that had these settings.
Settings gone_on(const std::vector<std::string>& flags, const Settings& before) {
  return settings_of({.flags = flags, .may_begin = true, .going_on = &before});
}

TEST(NewRun, DecaysAlongACosineAfterAFiftiethOfWarmup) {
  const Settings usual = begun({});
  EXPECT_EQ(usual.schedule, "cosine");
  EXPECT_EQ(usual.warmup_steps, 20);
  EXPECT_EQ(begun({"--steps=99"}).warmup_steps, 1);
  EXPECT_EQ(begun({"--warmup-steps=7"}).warmup_steps, 7);
  EXPECT_EQ(begun({"--warmup-steps=-1"}).warmup_steps, 20);
  Settings by_epochs = begun({"--epochs=3"});
  by_epochs.steps = 450;  // as the data tell
  choose_warmup(by_epochs);
  EXPECT_EQ(by_epochs.warmup_steps, 9);
  EXPECT_EQ(begun({"--schedule=linear"}).warmup_steps, 20);
  EXPECT_EQ(begun({"--schedule=constant"}).warmup_steps, 0);
}

TEST(NewRun, HoldsOutAFiftiethUnlessItIsEvaluatedOtherwise) {
  EXPECT_EQ(begun({}).eval_fraction, 0.02);
  EXPECT_EQ(begun({"--eval-data=e"}).eval_fraction, 0);
  EXPECT_EQ(begun({"--deterministic"}).eval_fraction, 0);
  EXPECT_EQ(begun({"--deterministic", "--eval-fraction=0.1"}).eval_fraction, 0.1);
  EXPECT_EQ(begun({"--eval-fraction=0"}).eval_fraction, 0);
}

TEST(NewRun, OneThatGoesOnDoesAsBefore) {
  Settings before;
  EXPECT_EQ(gone_on({}, before).schedule, "constant");
  EXPECT_EQ(gone_on({}, before).warmup_steps, 0);
  EXPECT_EQ(gone_on({}, before).eval_fraction, 0);
  before.schedule = "linear";
  before.warmup_steps = 3;
  before.eval_fraction = 0.25;
  const Settings now = gone_on({"--steps=5000"}, before);
  EXPECT_EQ(now.schedule, "linear");
  EXPECT_EQ(now.warmup_steps, 3);
  EXPECT_EQ(now.eval_fraction, 0.25);
  EXPECT_EQ(gone_on({"--schedule=cosine"}, before).schedule, "cosine");
  const Settings alone =
      settings_of({.flags = {"--warmup-steps=-1"}, .may_begin = true, .base = &before});
  EXPECT_EQ(alone.warmup_steps, 3);
}

// On a GPU auto may become unit, which rounds otherwise than model.
TEST(NewRun, PassesComeTogetherAsBefore) {
  EXPECT_EQ(begun({}).accumulate, "auto");
  EXPECT_EQ(begun({"--accumulate=model"}).accumulate, "model");
  Settings before;
  before.accumulate = "unit";
  EXPECT_EQ(gone_on({}, before).accumulate, "unit");
  EXPECT_EQ(gone_on({"--accumulate=auto"}, before).accumulate, "unit");
  EXPECT_EQ(gone_on({"--accumulate=model"}, before).accumulate, "model");
  EXPECT_EQ(gone_on({}, Settings()).accumulate, "model");
}

TEST(NewRun, AsManyStatesAsFitStayOnAGpu) {
  const auto fraction = [](const std::vector<std::string>& flags) {
    return begun(flags).device_state_fraction;
  };
  EXPECT_EQ(fraction({}), "auto");
  EXPECT_EQ(fraction({"--device-state-fraction=0"}), "0");
  EXPECT_EQ(fraction({"--offload=all"}), "0");
  EXPECT_EQ(fraction({"--device=cpu"}), "0");
  EXPECT_EQ(fraction({"--device=cuda", "--share-gpu"}), "0");
  EXPECT_EQ(fraction({"--optimizer=sgd"}), "0");
  EXPECT_EQ(gone_on({}, Settings()).device_state_fraction, "auto");
}

TEST(NewRun, UpdatesBeginInBackwardWhereAGpuMayTrain) {
  const auto speculate = [](const std::vector<std::string>& flags) {
    return begun(flags).speculate;
  };
  EXPECT_EQ(speculate({}), "auto");
  EXPECT_EQ(speculate({"--optimizer=sgd"}), "auto");
  EXPECT_EQ(speculate({"--speculate=off"}), "off");
  EXPECT_EQ(speculate({"--device=cpu"}), "off");
  EXPECT_EQ(speculate({"--device=cpu", "--speculate=2GiB"}), "2GiB");
  EXPECT_EQ(speculate({"--offload=none"}), "off");
  EXPECT_EQ(speculate({"--dtype=bf16", "--master=split"}), "auto");
  EXPECT_EQ(speculate({"--overlap-updates=false"}), "off");
  EXPECT_EQ(gone_on({}, Settings()).speculate, "auto");
}

TEST(NewRun, FrozenWeightsAreRoundedOnlyWhereThatIsAsked) {
  Settings settings;
  const auto frozen = [&](const std::string& stored, bool has_adapters = true) {
    Settings chosen = settings;
    choose_frozen_dtype(chosen, stored, has_adapters);
    return chosen.frozen_dtype;
  };
  for (const std::string type : {"bf16", "fp16", "fp32", "int8"})
    EXPECT_EQ(frozen(type), type) << "of a run that went on";
  for (const std::string type : {"", "fp64"}) EXPECT_EQ(frozen(type), "fp32");
  EXPECT_EQ(frozen("bf16", false), "fp32") << "nothing is frozen, and all is trained";
  settings.freeze = {"*"};
  EXPECT_EQ(frozen("bf16", false), "bf16");
  settings.frozen_dtype = "int8";
  EXPECT_EQ(frozen("bf16"), "int8");
  settings.frozen_dtype = "fp32";
  EXPECT_EQ(frozen("bf16"), "fp32");
}

TEST(NewRun, WhatWasTrainedIsNotTakenForWhatWasKeptFrozen) {
  Settings before;
  before.freeze = {"a.*"};
  Settings now = before;
  EXPECT_TRUE(freezes_no_more(now, before));
  now.freeze = {"a.*", "b.*"};
  EXPECT_FALSE(freezes_no_more(now, before));
  now = before, now.lora = "r=8";
  EXPECT_FALSE(freezes_no_more(now, before));
  now = before, now.unfreeze_at = {"3:a.*"};
  EXPECT_FALSE(freezes_no_more(before, now));
  now = before, now.group = {"b.*: lr=0"};
  EXPECT_FALSE(freezes_no_more(before, now));
}

TEST(NewRun, OtherVerbsChooseNothing) { EXPECT_EQ(settings_of({}).schedule, "constant"); }

TEST(LeftToRun, IsWhatARunChoosesAndNobodySaid) {
  const Settings usual = begun({"--steps=40"});
  const std::set<std::string> all = {"accumulate",    "device_state_fraction",
                                     "eval_fraction", "schedule",
                                     "speculate",     "warmup_steps"};
  EXPECT_EQ(usual.warmup_steps, 0) << "as the library's default";
  EXPECT_EQ(left_to_run(usual, {}), all);
  EXPECT_EQ(left_to_run(usual, {{"schedule", {}}}).count("schedule"), 0u);
  EXPECT_EQ(left_to_run(begun({"--warmup-steps=7"}), {}).count("warmup_steps"), 0u);
}

TEST(DefaultsBeside, AreThoseThatARunWouldHaveChosen) {
  Settings settings;
  settings.steps = 500;
  settings.lr = 1;
  EXPECT_EQ(defaults_beside(settings).warmup_steps, 10);
  EXPECT_EQ(defaults_beside(settings).lr, Settings().lr);
  settings.deterministic = true;
  EXPECT_EQ(defaults_beside(settings).eval_fraction, 0);
}

}  // namespace
}  // namespace zero::launcher::new_run_test

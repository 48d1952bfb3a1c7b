#include <gmock/gmock.h>

#include "launcher/selftest/lab.h"
#include "launcher/selftest/outcome.h"
#include "launcher/settings/chosen_model.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::trial_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Trial trial_of(const std::vector<std::string>& flags, int num_gpus = 0) {
  return make_trial(settings_of({flags}), some_models(), num_gpus);
}
ModelShape shape_of(const Trial& trial) {
  return new_shape(some_models()[0], trial.settings);
}

TEST(MakeTrial, WithoutAWordAboutSizesItIsTheSmallestPreset) {
  const Trial trial = trial_of({});
  EXPECT_EQ(trial.settings.preset, "gpt2-tiny");
  EXPECT_EQ(shape_of(trial).dim(), 64);
  EXPECT_EQ(shape_of(trial).layers(), 2);
  EXPECT_TRUE(trial.settings.deterministic);
  EXPECT_EQ(trial.settings.global_batch, 4 * trial.settings.micro_batch);
}

TEST(MakeTrial, TheUsersOwnModelIsMadeSmallAndThatIsTold) {
  const Trial trial = trial_of({"--preset=gpt2-124m"});
  EXPECT_THAT(trial.changes,
              ElementsAre("layers 12 -> 2", "seq_len 1024 -> 32", "vocab 50257 -> 257",
                          "data is left out", "out is left out"));
  EXPECT_EQ(shape_of(trial).dim(), 768);
  EXPECT_EQ(shape_of(trial).layers(), 2);
  EXPECT_EQ(shape_of(trial).vocab(), 257);
  EXPECT_EQ(shape_of(trial).seq_len, 32);
}

TEST(MakeTrial, WhatIsNoQuestionOfPlaceStays) {
  const Trial trial = trial_of({"--optimizer=lion", "--lr=0.25", "--recompute=every:2",
                                "--dtype=bf16", "--master=split", "--prefetch=3"});
  EXPECT_EQ(trial.settings.optimizer, "lion");
  EXPECT_EQ(trial.settings.lr, 0.25);
  EXPECT_EQ(trial.settings.recompute, "every:2");
  EXPECT_EQ(trial.settings.master, "split");
  EXPECT_EQ(trial.settings.prefetch, "3");
}

TEST(MakeTrial, TakesAFewStepsHoweverLongTheUsersRunIs) {
  Settings asked = settings_of({});
  asked.steps = 0;
  asked.epochs = 7;
  const Settings made = make_trial(asked, some_models(), 0).settings;
  EXPECT_EQ(made.epochs, 0);
  EXPECT_EQ(made.steps, Trial::kSteps);
}

TEST(MakeTrial, WhatCannotBeComparedGoes) {
  const Trial trial =
      trial_of({"--schedule=cosine", "--warmup-steps=2", "--grad-dtype=bf16",
                "--resume=must", "--chaos=3", "--dump-state=d", "--sample=secret"});
  EXPECT_EQ(trial.settings.schedule, "constant");
  EXPECT_EQ(trial.settings.warmup_steps, 0);
  EXPECT_EQ(trial.settings.grad_dtype, "fp32");
  EXPECT_EQ(trial.settings.resume, "auto");
  EXPECT_EQ(trial.settings.chaos, 0);
  EXPECT_EQ(trial.settings.dump_state, "");
  EXPECT_THAT(trial.changes, Contains("schedule cosine -> constant"));
  EXPECT_THAT(trial.changes, Contains("sample is left out"));
}

TEST(MakeTrial, FourRanksShareFewerGpus) {
  EXPECT_TRUE(trial_of({}, 1).settings.share_gpu);
  EXPECT_FALSE(trial_of({}, 0).settings.share_gpu);
  EXPECT_FALSE(trial_of({}, 4).settings.share_gpu);
  EXPECT_FALSE(trial_of({"--device=cpu"}, 1).settings.share_gpu);
}

TEST(ToldSettings, AreThoseThatWereChangedAndNoPaths) {
  Settings settings = settings_of({{"--lr=0.25"}});
  settings.init_from = "/home/someone/model";
  EXPECT_THAT(told_settings(settings), ElementsAre("lr = 0.25"));
}

TEST(TextOfTrial, IsAsLongAsAskedForAndAnotherForEachSeed) {
  EXPECT_EQ(text_of_trial(1, 1000).size(), 1000u);
  EXPECT_EQ(text_of_trial(1, 1000), text_of_trial(1, 1000));
  EXPECT_NE(text_of_trial(1, 1000), text_of_trial(2, 1000));
}

SelftestReport some_report() {
  SelftestReport report{{{"processor", {{Mark::kOk, "cores", "2 of 2", ""}}}},
                        trial_of({"--lr=0.25"}),
                        {{"one rank trains", true, "6 losses", 1},
                         {"2 ranks are as one", false, "step 3: ...", 2}},
                        3};
  return report;
}

TEST(SelftestReport, TellsWhatIsKeptAndWhatIsNot) {
  const std::string text = to_text(some_report());
  EXPECT_THAT(text, HasSubstr(" selftest: 1 of 2 promises kept, 3 s\n"));
  EXPECT_THAT(text, HasSubstr("processor\n  cores         2 of 2\n"));
  EXPECT_THAT(text, HasSubstr("lr = 0.25, "));
  EXPECT_THAT(text, HasSubstr("data is left out"));
  EXPECT_THAT(text, HasSubstr("  ok      one rank trains"));
  EXPECT_THAT(text, HasSubstr("  FAILED  2 ranks are as one"));
}

TEST(SelftestReport, IsOneObjectForPrograms) {
  const json told = json::parse(to_json_line(some_report()));
  EXPECT_EQ(told["kept"], false);
  EXPECT_EQ(told["results"][0]["kept"], true);
  EXPECT_EQ(told["results"][1]["text"], "step 3: ...");
  EXPECT_EQ(told["machine"][0]["name"], "cores");
}

TEST(SelftestReport, HoldsNoNamesOfHostsUsersAndFolders) {
  EXPECT_EQ(
      without("[ada7:1] /tmp/lab/run of eve at /home/eve, me", {{"/tmp/lab", "FOLDER"},
                                                                {"/home/eve", "HOME"},
                                                                {"ada7", "HOST"},
                                                                {"eve", "USER"},
                                                                {"me", "USER"},
                                                                {"", "X"}}),
      "[HOST:1] FOLDER/run of USER at HOME, me");
}

}  // namespace
}  // namespace zero::launcher::trial_test

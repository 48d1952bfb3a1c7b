#include "launcher/run/saved_run.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::saved_run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

SavedRun some_run() {
  SavedRun run;
  run.settings.lr = 0.125;
  run.settings.data = {"here"};
  run.data = {"0123456789abcdef", 1000};
  run.vocab = 257;
  run.is_text = true;
  run.threads = 6;
  return run;
}

std::vector<std::string> changed_keys(const SavedRun& before, const SavedRun& now) {
  std::vector<std::string> keys;
  for (const ChangedSetting& change : differences(before, now))
    keys.push_back(change.key);
  return keys;
}

TEST(SavedRun, ComesBack) {
  const SavedRun run = some_run(), read = parse_saved_run(to_text(run), "manifest");
  EXPECT_EQ(read.settings, run.settings);
  EXPECT_EQ(read.data, run.data);
  EXPECT_EQ(read.vocab, 257);
  EXPECT_TRUE(read.is_text);
  EXPECT_EQ(read.threads, 6);
}

TEST(SavedRun, TellsWhereFrozenWeightsAre) {
  SavedRun run = some_run();
  EXPECT_EQ(parse_saved_run(to_text(run), "manifest").frozen.path, "");
  EXPECT_FALSE(run.frozen.has("a"));
  run.frozen = {"/models/a", {{"fp32", {{"a", "01"}, {"b", "02"}}}, {"bf16", {}}}};
  const FrozenSource read = parse_saved_run(to_text(run), "manifest").frozen;
  EXPECT_EQ(read.path, "/models/a");
  EXPECT_EQ(read.checksums, run.frozen.checksums);
  EXPECT_EQ(read.fqns(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read.has("b"));
  nlohmann::json config = nlohmann::json::parse(to_text(run));
  config["frozen"]["checksums"] = 3;
  EXPECT_THROW(parse_saved_run(config.dump(), "manifest"), Error);
}

TEST(SavedRun, OlderOnesTellNoThreads) {
  nlohmann::json config = nlohmann::json::parse(to_text(some_run()));
  config.erase("threads");
  EXPECT_EQ(parse_saved_run(config.dump(), "").threads, 0);
}

TEST(SavedRun, AnotherProgramsCheckpointIsNamed) {
  for (const char* text : {"{}", "", "[]", R"({"settings":{},"data":1})"}) {
    try {
      parse_saved_run(text, "manifest");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_EQ(error.where(), "manifest");
    }
  }
}

TEST(SavedRun, OfAFamilyThatIsNotHereIsNamed) {
  SavedRun run = some_run();
  run.settings.model = "nobodys";
  EXPECT_EQ(find_family_of({}, run), nullptr);
  try {
    require_family_of({}, run, "run/step");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.problem(), HasSubstr("nobodys"));
    EXPECT_EQ(error.where(), "run/step");
  }
}

TEST(SavedRun, CountsThatNoRunHasAreRefused) {
  for (const char* bad : {"-1", "1e300", "2.5", "18446744073709551615", "true"}) {
    for (const char* pointer : {"/vocab", "/data/tokens", "/threads"}) {
      nlohmann::json config = nlohmann::json::parse(to_text(some_run()));
      config[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(bad);
      EXPECT_THROW(parse_saved_run(config.dump(), ""), Error) << pointer << " " << bad;
    }
  }
}

// They held nothing out and trained on all of the data.
TEST(SavedRun, OlderOnesTellOfNoFractionHeldOut) {
  nlohmann::json config = nlohmann::json::parse(to_text(some_run()));
  ASSERT_EQ(config["settings"].erase("eval_fraction"), 1u);
  ASSERT_EQ(config["settings"].erase("schedule"), 1u);
  const SavedRun older = parse_saved_run(config.dump(), "");
  EXPECT_EQ(older.settings.eval_fraction, 0);
  EXPECT_EQ(older.settings.schedule, "constant");
  EXPECT_THAT(changed_keys(older, some_run()), IsEmpty());
  SavedRun now = some_run();
  now.settings.eval_fraction = 0.02;
  EXPECT_THAT(changed_keys(older, now), ::testing::ElementsAre("eval_fraction"));
}

// All that belongs to a machine or to tests.
Settings of_a_machine() {
  Settings settings;
  settings.ranks = settings.threads = settings.adam_threads = 4;
  settings.hosts = settings.tokenizer = settings.python = "here";
  settings.device = "cpu";
  settings.bind = false;
  settings.hang_timeout = settings.chaos = 5;
  settings.host_memory = settings.device_memory = 1 << 30;
  settings.ignore_plan = settings.offload_activations = true;
  settings.offload = "none";
  settings.device_state_fraction = "0.5";
  settings.grad_sums = "device";
  settings.speculate = "auto";
  settings.pin = "transfers";
  settings.shard_over = "host";
  settings.allow_missing = settings.allow_extra = {"a*"};
  settings.dump_state = settings.trace_comm = "there";
  settings.delay = {"forward=5"};
  return settings;
}

TEST(SavedRun, AnotherUseOfItsModelTakesNothingOfTheMachine) {
  Settings settings = of_a_machine();
  settings.tf32 = true;
  settings.lora = "r=4";
  settings.adapter = "here";
  EXPECT_EQ(to_json(settings_for_use(settings)), to_json(Settings()));
  settings.lr = 0.125;
  EXPECT_EQ(settings_for_use(settings).lr, 0.125);
}

TEST(SavedRun, ARunGoesOnWithoutWhatBelongedToOneStart) {
  Settings settings = of_a_machine();
  settings.share_gpu = settings.take_over = true;
  settings.out = settings.init_report = "there";
  settings.time_limit = 60;
  settings.resume = "must";
  settings.overrides = {"lr"};
  settings.trace = {1, 2};
  EXPECT_EQ(to_json(settings_to_go_on(settings)), to_json(Settings()));
  settings.tf32 = true;
  EXPECT_TRUE(settings_to_go_on(settings).tf32);
}

TEST(Progress, ComesBack) {
  const Progress progress = {7, 56, 2, 1, 4, 6, 3, 2.125};
  EXPECT_EQ(parse_progress(to_text(progress), ""), progress);
  EXPECT_THROW(parse_progress("{}", ""), Error);
}

TEST(Progress, OlderOnesTellOfNoSample) {
  const std::string older = R"({"num_batches":7,"num_samples":56,"num_bad":2,)"
                            R"("num_bad_in_a_row":1,"last_evaluation":4)";
  EXPECT_EQ(parse_progress(older + "}", ""), (Progress{7, 56, 2, 1, 4, -1, -1, 0}));
  EXPECT_THROW(parse_progress(older + ",\"last_sample\":-2}", ""), Error);
}

TEST(Progress, NumbersThatNoRunHasAreRefused) {
  const auto json = [](const std::string& batches, const std::string& samples) {
    return R"({"num_batches":)" + batches + R"(,"num_samples":)" + samples +
           R"(,"num_bad":0,"num_bad_in_a_row":0,"last_evaluation":-1})";
  };
  EXPECT_EQ(parse_progress(json("7", "56"), "").num_samples, 56);
  for (const char* bad : {"-1", "9223372036854775807", "18446744073709551615", "1.5",
                          "true", "\"7\"", "null", "[7]"}) {
    EXPECT_THROW(parse_progress(json(bad, "56"), ""), Error) << bad;
    EXPECT_THROW(parse_progress(json("7", bad), ""), Error) << bad;
  }
}

TEST(SavedRun, SettingsOfOtherShapesAreRefused) {
  const std::string text = to_text(some_run());
  const auto with = [&](const std::string& key, const std::string& value) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["settings"][key] = nlohmann::json::parse(value);
    return json.dump();
  };
  EXPECT_NO_THROW(parse_saved_run(with("lr", "0.5"), ""));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"lr", "[]"},         {"lr", "[0.5]"},       {"lr", "{}"},
      {"lr", "null"},       {"betas", "[[],[]]"},  {"betas", "[]"},
      {"betas", "0.5"},     {"data", "\"text\""},  {"save_every", "[1]"},
      {"save_every", "-1"}, {"layers", "1048576"}, {"shuffle", "\"maybe\""}};
  for (const auto& [key, value] : bad) {
    EXPECT_THROW(parse_saved_run(with(key, value), ""), Error) << key << " = " << value;
  }
}

TEST(Differences, MachineAndCourseOfTheRunMayChange) {
  SavedRun now = some_run();
  now.settings.steps = 99;
  now.settings.threads = 3;
  now.settings.prefetch = "0";
  now.settings.recompute = "none";
  now.settings.save_every = {.steps = 5, .seconds = 0};
  now.settings.out = "elsewhere";
  EXPECT_THAT(differences(some_run(), now), IsEmpty());
}

TEST(Differences, WhatDefinesTheRunMayNot) {
  SavedRun now = some_run();
  now.settings.layers = 5;
  now.settings.global_batch = 64;
  now.settings.seed = 1;
  now.settings.clip = 2;
  EXPECT_THAT(changed_keys(some_run(), now),
              ::testing::UnorderedElementsAre("layers", "global_batch", "seed", "clip"));
  now.settings.overrides = {"layers", "seed", "clip"};
  EXPECT_THAT(changed_keys(some_run(), now), ::testing::ElementsAre("global_batch"));
}

TEST(Differences, ConstantsGoWithTheirOptimizer) {
  SavedRun before = some_run();
  before.settings.betas = {0.9, 0.99};
  SavedRun now = some_run();
  now.settings.optimizer = "sgd";
  EXPECT_THAT(changed_keys(before, now),
              ::testing::UnorderedElementsAre("optimizer", "betas"));
  now.settings.overrides = {"optimizer"};
  EXPECT_THAT(changed_keys(before, now), IsEmpty());
  now.settings.optimizer = before.settings.optimizer;
  EXPECT_THAT(changed_keys(before, now), ::testing::ElementsAre("betas"));
}

TEST(Differences, FrozenWeightsMayNotBeRoundedOtherwise) {
  SavedRun before = some_run();
  before.settings.dtype = "fp32", before.settings.frozen_dtype = "bf16";
  SavedRun now = before;
  for (const std::string same : {"bf16", "fp32", "auto"}) {
    now.settings.frozen_dtype = same;
    EXPECT_TRUE(differences(before, now).empty()) << same;
  }
  now.settings.frozen_dtype = "int8";
  ASSERT_EQ(differences(before, now).size(), 1u);
  EXPECT_EQ(differences(before, now)[0].key, "frozen_dtype");
  now.settings.overrides = {"frozen_dtype"};
  EXPECT_TRUE(differences(before, now).empty());
  now.settings.overrides = {};
  now.settings.frozen_dtype = before.settings.dtype = now.settings.dtype = "fp16";
  EXPECT_TRUE(differences(before, now).empty()) << "steps compute the same";
}

TEST(Differences, DataIsItsContentsAndNotItsPlace) {
  SavedRun now = some_run();
  now.settings.data = {"there"};
  EXPECT_THAT(differences(some_run(), now), IsEmpty());
  now.data.hash[0] = 'f';
  EXPECT_THAT(changed_keys(some_run(), now), ::testing::ElementsAre("data"));
}

TEST(Differences, FewerStepsBelongToADecayingSchedule) {
  SavedRun before = some_run();
  before.settings.schedule = "cosine";
  SavedRun now = before;
  now.settings.steps = before.settings.steps - 1;
  EXPECT_THAT(changed_keys(before, now), ::testing::ElementsAre("steps"));
  now.settings.steps = before.settings.steps + 1;
  EXPECT_THAT(changed_keys(before, now), IsEmpty());
  now.settings.steps = before.settings.steps - 1;
  now.settings.schedule = before.settings.schedule = "constant";
  EXPECT_THAT(changed_keys(before, now), IsEmpty());
}

TEST(ChangedRate, IsToldWhereMoreStepsRaiseIt) {
  Settings before;
  before.schedule = "cosine";
  before.lr = 1e-3;
  before.warmup_steps = 10;
  before.steps = 110;
  Settings now = before;
  EXPECT_EQ(changed_rate(before, now, 60), "");
  now.lr = 2e-3;
  EXPECT_EQ(changed_rate(before, now, 60), "") << "who changed it knows";
  now.lr = before.lr;
  now.steps = 210;
  EXPECT_EQ(changed_rate(before, now, 110),
            "steps was 110, is 210, under schedule cosine: the rate of step 111 was "
            "0.0e+00, is 5.0e-04");
  EXPECT_EQ(changed_rate(before, now, 5), "") << "it is warming up";
}

TEST(EvaluatesAs, TheSameSamplesAlone) {
  const Settings before;
  Settings now;
  now.eval_every = 5;
  EXPECT_TRUE(evaluates_as(before, now));
  now.eval_samples = 5;
  EXPECT_FALSE(evaluates_as(before, now));
  now = before;
  now.eval_data = {"elsewhere"};
  EXPECT_FALSE(evaluates_as(before, now));
  now = before;
  now.eval_fraction = 0.5;
  EXPECT_FALSE(evaluates_as(before, now));
}

TEST(CheckSameRun, ListsAllWithTheCure) {
  SavedRun now = some_run();
  now.settings.lr = 0.5;
  now.settings.dim = 64;
  EXPECT_NO_THROW(check_same_run(some_run(), some_run(), "", {"shape a"}));
  try {
    check_same_run(some_run(), now, "runs/a/step_1", {"shape a"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.problem(), HasSubstr("lr was 0.125, is 0.5"));
    EXPECT_THAT(error.problem(), HasSubstr("dim was 0, is 64"));
    EXPECT_EQ(error.cure(),
              "the old values: --dim 0 --lr 0.125; or another --out, to start anew");
  }
}

TEST(CheckSameRun, AListThatWasEmptyIsLeftOut) {
  SavedRun now = some_run();
  now.settings.freeze = {"a*"};
  try {
    check_same_run(some_run(), now, "runs/a/step_1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.cure(), HasSubstr("the old values: without --freeze;"));
  }
}

TEST(CheckSameRun, ASizeThatIsLeftToThePresetIsNotGiven) {
  SavedRun before = some_run();
  before.settings.dim = 64;
  try {
    check_same_run(before, some_run(), "runs/a/step_1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), HasSubstr("dim was 64, is not given now"));
  }
}

TEST(CheckSameRun, OtherDataAreNoValueToBeGiven) {
  SavedRun now = some_run();
  now.data.num_tokens = 999;
  try {
    check_same_run(some_run(), now, "runs/a/step_1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cure(),
              "the old data; or --resume must --override data, to go on with the new "
              "ones; or another --out, to start anew");
  }
}

TEST(CheckSameRun, WhatChangesNoTensorCanBeOverridden) {
  SavedRun now = some_run();
  now.settings.lr = 0.5;
  now.settings.betas = {0.5, 0.25};
  now.settings.dropout = 0.5;
  try {
    check_same_run(some_run(), now, "runs/a/step_1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.cure(), HasSubstr("--lr 0.125 --betas 0.9,0.95; or"));
    EXPECT_THAT(error.cure(), HasSubstr("--resume must --override dropout lr betas,"));
  }
}

TEST(CheckSameRun, NoOverrideMakesTheTensorsOfAnotherModel) {
  SavedRun now = some_run();
  now.settings.lr = 0.5;
  now.settings.overrides = {"seq_len", "lr"};
  EXPECT_NO_THROW(check_same_run(some_run(), now, "runs/a/step_1", {"shape a"}))
      << "it is no setting's fault";
  now.settings.seq_len = 64;
  EXPECT_NO_THROW(check_same_run(some_run(), now, "runs/a/step_1"));
  try {
    check_same_run(some_run(), now, "runs/a/step_1", {"shape a"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.problem(),
              "no override makes a checkpoint fit another model:\n  - seq_len was 0, is "
              "64\n  shape a");
    EXPECT_EQ(error.cure(),
              "the old values: --seq-len 0; or another --out, to start anew");
  }
}

TEST(LastingPath, IsWholeAndOfCharacters) {
  EXPECT_EQ(lasting_path("/a/b"), "/a/b");
  EXPECT_THAT(lasting_path("b"), ::testing::EndsWith("/b"));
  EXPECT_THROW(lasting_path("/a/d\xe9"), Error);
}

}  // namespace
}  // namespace zero::launcher::saved_run_test

#include "launcher/settings/config.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Config, DefaultsWhenNothingIsSaid) {
  Settings expected;
  expected.data = {"d"};
  expected.out = "o";
  EXPECT_EQ(settings_of({}), expected);
}

TEST(Config, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  TempFolder folder;
  const std::string file = folder.write("run.toml", "lr = 0.5\nsteps = 50\nseed = 5\n");
  const Settings s =
      settings_of({{"--config", file, "--lr", "0.1"}, {"ZERO_LR=0.2", "ZERO_STEPS=20"}});
  EXPECT_EQ(s.lr, 0.1);
  EXPECT_EQ(s.steps, 20);
  EXPECT_EQ(s.seed, 5);
  EXPECT_EQ(s.micro_batch, Settings{}.micro_batch);
}

TEST(Config, EveryKindOfValueFromFlags) {
  const Settings s =
      settings_of({{"--data", "a", "b,c", "--betas", "0.8,0.9", "--shuffle=false",
                    "--no-bind", "--deterministic", "--metrics", "jsonl,csv",
                    "--time-limit", "23:30:00", "--sample=--x", "--trace=steps=3:5",
                    "--freeze", "h.0.*", "--freeze", "wte", "--lr=1e-3"}});
  EXPECT_THAT(s.data, ElementsAre("a", "b,c", "d"));
  EXPECT_THAT(s.betas, ElementsAre(0.8, 0.9));
  EXPECT_FALSE(s.shuffle);
  EXPECT_FALSE(s.bind);
  EXPECT_TRUE(s.deterministic);
  EXPECT_THAT(s.metrics, ElementsAre("jsonl", "csv"));
  EXPECT_EQ(s.time_limit, 23 * 3600 + 30 * 60);
  EXPECT_EQ(s.sample, "--x");
  EXPECT_EQ(s.trace, (StepRange{3, 5}));
  EXPECT_THAT(s.freeze, ElementsAre("h.0.*", "wte"));
  EXPECT_EQ(s.lr, 1e-3);
}

TEST(Config, EveryKindOfValueFromTheEnvironment) {
  const Settings s =
      settings_of({{},
                   {"ZERO_EVAL_DATA=a, b", "ZERO_BETAS=0.8,0.9", "ZERO_SHUFFLE=off",
                    "ZERO_DTYPE=bf16", "ZERO_TORCH=/opt", "ZERO_BUILD=b", "ZERO_VENV=v",
                    "ZERO_CUDA=OFF", "HOME=/"}});
  EXPECT_THAT(s.eval_data, ElementsAre("a", "b"));
  EXPECT_THAT(s.betas, ElementsAre(0.8, 0.9));
  EXPECT_FALSE(s.shuffle);
  EXPECT_EQ(s.dtype, "bf16");
}

TEST(Config, ABooleanTakesTheNextWordOnlyIfItIsOne) {
  EXPECT_FALSE(settings_of({{"--shuffle", "false"}}).shuffle);
  EXPECT_THAT(complaint({{"--shuffle", "maybe"}}), HasSubstr("\"maybe\" stands alone"));
  EXPECT_THAT(complaint({{"--shuffle=maybe"}}),
              HasSubstr("shuffle is \"maybe\"; allowed: true or false (--shuffle)"));
}

TEST(Config, UnknownFlagOffersTheNearest) {
  EXPECT_THAT(complaint({{"--seq-lenn", "3"}}),
              HasSubstr("unknown flag --seq-lenn; nearest: --seq-len"));
  EXPECT_EQ(settings_of({{"--seq_len=3"}}).seq_len, 3) << "underscores are taken";
  EXPECT_THAT(complaint({{"--seq_lenn=3"}}),
              HasSubstr("unknown flag --seq_lenn; nearest: --seq-len"));
  EXPECT_THAT(complaint({{"--zzzzzzzz", "3"}}), Not(HasSubstr("nearest")));
}

TEST(Config, UnknownKeyAndVariableOfferTheNearest) {
  TempFolder folder;
  const std::string file = folder.write("run.toml", "# mine\nwarm_up_steps = 3\n");
  EXPECT_EQ(complaint({{"--config", file}}),
            "unknown key warm_up_steps; nearest: warmup_steps (" + file + " line 2)");
  EXPECT_THAT(
      complaint({{}, {"ZERO_GLOBAL_BACH=3"}}),
      HasSubstr(
          "unknown environment variable ZERO_GLOBAL_BACH; nearest: ZERO_GLOBAL_BATCH"));
  const std::vector<std::string> others = {
      "ZERO_GLOBAL_BACH=3", "ZERO_DEMO_OUT=/x", "ZERO_OTHERS_THING",
      "ZERO_LR=1",          "HOME=/",           "ZERO_STAGE=3"};
  EXPECT_THAT(unread_variables(others),
              ::testing::ElementsAre("ZERO_DEMO_OUT", "ZERO_OTHERS_THING", "ZERO_STAGE"))
      << "which stop no run";
}

TEST(Config, NamesOfOtherToolsAreTranslated) {
  EXPECT_THAT(complaint({{"--gradient-accumulation-steps", "4"}}),
              HasSubstr("here: --global-batch"));
  EXPECT_THAT(complaint({{"--update-freq", "4"}}), HasSubstr("here: --global-batch"));
  EXPECT_THAT(complaint({{"--per_device_train_batch_size=4"}}),
              HasSubstr("here: --micro-batch"));
  EXPECT_THAT(complaint({{"--zero-optimization"}}), HasSubstr("not needed"));
  EXPECT_THAT(complaint({{"--cpu-offload"}}), HasSubstr("here: --offload"));
  EXPECT_THAT(complaint({{"--fp16"}}), HasSubstr("here: --dtype"));
  EXPECT_THAT(complaint({{"--max-update", "9"}}), HasSubstr("here: --steps"));
  EXPECT_THAT(complaint({{"--checkpoint-activations"}}), HasSubstr("here: --recompute"));
  EXPECT_THAT(complaint({{"--learning_rate", "1"}}), HasSubstr("here: --lr"));
  EXPECT_FALSE(settings_of({{"--no-reshard-after-forward"}}).reshard_after_forward);
}

TEST(Config, SomeUnitsOrAllOrNoneAreRecomputed) {
  TempFolder folder;
  const std::string file = folder.write("run.toml", "recompute = \"every:2\"\n");
  EXPECT_EQ(settings_of({{"--config", file}}).recompute, "every:2");
  EXPECT_EQ(settings_of({{"--recompute", "every:3"}}).recompute, "every:3");
  for (const char* value : {"every:0", "every:", "every:x", "all"}) {
    EXPECT_EQ(complaint({{"--recompute", value}}),
              "recompute is \"" + std::string(value) +
                  "\"; allowed: unit, none or every:K with K from 1 to 1048576 "
                  "(--recompute)");
  }
}

TEST(Config, WhatAGpuKeeps) {
  TempFolder folder;
  const std::string file =
      folder.write("run.toml", "offload = \"all\"\ndevice_state_fraction = 0.25\n");
  EXPECT_EQ(settings_of({{"--config", file}}).device_state_fraction, "0.25");
  EXPECT_EQ(settings_of({{"--config", file}}).offload, "all");
  EXPECT_EQ(settings_of({{"--device-state-fraction", "auto"}}).device_state_fraction,
            "auto");
  for (const char* value : {"1.1", "-0.1", "half", "nan"}) {
    EXPECT_EQ(complaint({{"--device-state-fraction", value}}),
              "device_state_fraction is \"" + std::string(value) +
                  "\"; allowed: a number from 0 to 1, or auto "
                  "(--device-state-fraction)");
  }
  EXPECT_THAT(complaint({{"--offload", "some"}}),
              HasSubstr("allowed: auto, none, optimizer or all"));
  EXPECT_THAT(complaint({{"--offload", "none", "--device", "cpu"}}),
              HasSubstr("offload none is for a GPU, device is cpu"));
  EXPECT_THAT(complaint({{"--offload", "none", "--optimizer", "lion"}}),
              HasSubstr("offload none belongs to adamw"));
  EXPECT_THAT(complaint({{"--offload", "none", "--device-state-fraction", "0.5"}}),
              HasSubstr("device_state_fraction belongs to offload optimizer, all"));
  EXPECT_THAT(complaint({{"--device-state-fraction", "0.5", "--optimizer", "sgd"}}),
              HasSubstr("device_state_fraction belongs to adamw"));
}

TEST(Config, WhatIsPinnedIsForAGpu) {
  EXPECT_EQ(settings_of({{"--pin", "transfers"}}).pin, "transfers");
  EXPECT_THAT(complaint({{"--pin", "none"}}), HasSubstr("allowed: all or transfers"));
  EXPECT_THAT(complaint({{"--pin", "transfers", "--device", "cpu"}}),
              HasSubstr("pin transfers is for a GPU, device is cpu"));
  EXPECT_EQ(settings_of({{"--pin", "all", "--device", "cpu"}}).pin, "all");
}

TEST(Config, Tf32IsForFp32OnAGpu) {
  EXPECT_TRUE(settings_of({{"--tf32"}}).tf32);
  EXPECT_THAT(complaint({{"--tf32", "--dtype", "bf16"}}),
              HasSubstr("tf32 belongs to dtype fp32, not to bf16"));
  EXPECT_THAT(complaint({{"--tf32", "--device", "cpu"}}),
              HasSubstr("tf32 is for a GPU, and device is cpu"));
}

TEST(Config, WhatIsGivenForAGpuIsRefusedWhereAutoFindsNone) {
  const auto without_gpu = [](const std::vector<std::string>& flags) {
    return complaint({.flags = flags, .has_gpu = [] { return false; }});
  };
  EXPECT_EQ(without_gpu({"--offload=none"}),
            "offload none is for a GPU, device auto found no GPU: all is in the host's "
            "memory there (--offload)");
  EXPECT_EQ(without_gpu({"--grad-sums=device"}),
            "grad_sums device is for a GPU, device auto found no GPU; allowed: grad_sums "
            "host (--grad-sums)");
  EXPECT_THAT(without_gpu({"--tf32", "--device-memory=1GiB"}),
              AllOf(HasSubstr("2 settings cannot be used"),
                    HasSubstr("tf32 is for a GPU, and device auto found no GPU: leave it "
                              "out (--tf32)"),
                    HasSubstr("device_memory is a GPU's, device auto found no GPU")));
  for (const char* flag :
       {"--device-state-fraction=0.5", "--pin=transfers", "--offload-activations"})
    EXPECT_THAT(without_gpu({flag}), HasSubstr("device auto found no GPU")) << flag;
  EXPECT_EQ(without_gpu({"--share-gpu"}), "");
  Settings of_gpu;
  of_gpu.tf32 = true;
  const auto has_none = [] { return false; };
  EXPECT_EQ(complaint({.flags = {}, .base = &of_gpu, .has_gpu = has_none}), "")
      << "it is the checkpoint's";
  EXPECT_EQ(
      complaint({.flags = {"--offload=none", "--tf32"}, .has_gpu = [] { return true; }}),
      "");
  const auto is_asked = [] {
    ADD_FAILURE() << "nothing is given for a GPU";
    return true;
  };
  EXPECT_EQ(complaint({.flags = {"--lr=1"}, .has_gpu = is_asked}), "");
}

TEST(Config, OnlyWhatAGpuIsGivenToRecomputeGoesToTheHost) {
  const auto offloads = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--offload-activations");
    return Words{flags};
  };
  EXPECT_TRUE(settings_of({offloads({})}).offload_activations);
  EXPECT_FALSE(settings_of({{"--no-offload-activations"}}).offload_activations);
  EXPECT_THAT(complaint({offloads({"--device", "cpu"})}),
              HasSubstr("offload_activations is for a GPU, device is cpu"));
  EXPECT_THAT(complaint({offloads({"--device", "cuda", "--recompute", "none"})}),
              HasSubstr("offload_activations belongs to recompute unit or every:K"));
  EXPECT_TRUE(settings_of({offloads({"--device", "cuda", "--recompute", "every:2"})})
                  .offload_activations);
}

TEST(Config, BadNumbersAreRefusedByName) {
  EXPECT_EQ(complaint({{"--lr", "-1"}}),
            "lr is \"-1\"; allowed: a finite number, 0 or more (--lr)");
  for (const char* value : {"1e400", "nan", "inf", "-0.1", "", "1x", "0x10", "1 "}) {
    EXPECT_THAT(complaint({{"--lr", value}}),
                HasSubstr("lr is \"" + std::string(value) + "\"; allowed"))
        << value;
  }
  for (const char* value : {"1.5", "-1", "99999999999999999999", "ten", "1e3"}) {
    EXPECT_THAT(complaint({{"--steps", value}}), HasSubstr("allowed: an integer from 0"))
        << value;
  }
  for (const char* value : {"-1", "1.5", "all"}) {
    EXPECT_THAT(complaint({{"--loss-chunk", value}}),
                HasSubstr("loss_chunk is \"" + std::string(value) +
                          "\"; allowed: an integer from 0 to"));
  }
  EXPECT_THAT(complaint({{"--betas", "0.9"}}),
              HasSubstr("allowed: two numbers from 0, below 1"));
  EXPECT_THAT(complaint({{"--betas", "0.9,1"}}),
              HasSubstr("allowed: two numbers from 0, below 1"));
  EXPECT_THAT(complaint({{"--time-limit", "1x"}}), HasSubstr("such as 23:30:00"));
  for (const char* value : {"80", "1", "1048575"})
    EXPECT_THAT(complaint({{"--device-memory", value}}), HasSubstr("with its unit"));
  EXPECT_EQ(complaint({{"--host-memory", "1048576", "--time-limit", "12h"}}), "");
  EXPECT_THAT(complaint({{"--dtype", "fp8"}}),
              HasSubstr("dtype is \"fp8\"; allowed: fp32, bf16 or fp16"));
  for (const char* value :
       {"3:5", "steps=5", "steps=0:2", "steps=3:2", "steps=1:2:3", "steps=a:b"}) {
    EXPECT_EQ(complaint({{"--trace", value}}),
              "trace is \"" + std::string(value) +
                  "\"; allowed: steps=FIRST:LAST with 1 <= FIRST <= LAST, such as "
                  "steps=3:5 (--trace)");
  }
  EXPECT_THAT(complaint({{"--metrics", "jsonl,xml"}}),
              HasSubstr("allowed: jsonl, csv or tensorboard"));
}

TEST(Config, MissingAndRepeatedValues) {
  EXPECT_THAT(complaint({{"--lr", "--seed", "1"}}), HasSubstr("lr has no value"));
  EXPECT_THAT(complaint({{"--lr", "1", "--lr", "2"}}),
              HasSubstr("lr is given 2 times, as 1 and 2; allowed: once"));
  EXPECT_THAT(complaint({{"--eval-data"}}), HasSubstr("eval_data has no value"));
  EXPECT_THAT(complaint({{"stray"}}), HasSubstr("\"stray\" stands alone"));
}

TEST(Config, FilesAreTyped) {
  TempFolder folder;
  const auto complaint_about = [&](const std::string& text) {
    return complaint({{"--config", folder.write("run.toml", text)}});
  };
  EXPECT_THAT(complaint_about("steps = \"10\""),
              HasSubstr("wrong type; allowed: a number"));
  EXPECT_THAT(complaint_about("shuffle = 1"),
              HasSubstr("wrong type; allowed: true or false"));
  EXPECT_THAT(complaint_about("out = 3"), HasSubstr("wrong type; allowed: a string"));
  EXPECT_THAT(complaint_about("betas = [0.9, \"x\"]"),
              HasSubstr("wrong type; allowed: an array"));
  EXPECT_THAT(complaint_about("lr = [1]"), HasSubstr("wrong type; allowed: a number"));
  EXPECT_THAT(complaint_about("lr = 1e400"), HasSubstr("could not be interpreted"));
  EXPECT_THAT(complaint_about("lr = inf"), HasSubstr("lr is inf; allowed"));
  EXPECT_THAT(complaint_about("lr = 1\nlr = 2"), HasSubstr("cannot redefine existing"));
  EXPECT_THAT(complaint_about("[optimizer]\nlr = 1"), HasSubstr("line 1"));
}

TEST(Config, AFileThatCannotBeReadIsAProblem) {
  EXPECT_THAT(complaint({{"--config", "/no/such.toml"}}),
              HasSubstr("cannot read /no/such.toml: No such file"));
  TempFolder folder;
  EXPECT_THAT(complaint({{"--config", folder.path("")}}), HasSubstr("is a folder"));
  EXPECT_THAT(complaint({{"--config", "/dev/zero"}}), HasSubstr("pipe or a device"));
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(complaint({{"--config", folder.path("pipe")}}),
              HasSubstr("pipe or a device"));
  const std::string large(2 << 20, '#');
  EXPECT_THAT(complaint({{"--config", folder.write("large", large)}}),
              HasSubstr("over 1 MiB"));
}

TEST(Config, LimitsThemselvesAreAllowedOrNot) {
  EXPECT_EQ(settings_of({{"--layers", "16384"}}).layers, 16384);
  EXPECT_EQ(complaint({{"--lr", "1", "--min-lr", "1"}}), "");
  EXPECT_THAT(complaint({{"--layers", "16385"}}), HasSubstr("from 0 to 16384"));
  EXPECT_THAT(complaint({{"--dropout", "1"}}), HasSubstr("a number from 0, below 1"));
  EXPECT_THAT(complaint({{}, {"ZERO_EVAL_DATA=a,,b"}}), HasSubstr("none of them empty"));
}

TEST(Config, ListsWithCommasAreGivenOnce) {
  EXPECT_THAT(complaint({{"--metrics", "jsonl", "--metrics", "csv"}}),
              HasSubstr("metrics is given twice"));
}

TEST(Config, OnlyBooleansAreNegated) {
  EXPECT_THAT(complaint({{"--no-lr"}}), HasSubstr("unknown flag --no-lr"));
}

TEST(Config, ACheckpointsSettingsTakeTheDefaultsPlace) {
  Settings base;
  base.lr = 0.5;
  base.seed = 7;
  ConfigContext context;
  context.base = &base;
  context.verb = "generate";
  base.sample = "a";
  const Settings read = read_settings(read_command_line({"--seed", "8"}), {}, context);
  EXPECT_EQ(read.lr, 0.5);
  EXPECT_EQ(read.seed, 8);
}

TEST(Config, AVerbRefusesFlagsThatItDoesNotUseAndLeavesOthersAlone) {
  ConfigContext context;
  context.verb = "generate";
  EXPECT_THROW(read_settings(read_command_line({"--lr", "8"}), {}, context), Error);
  EXPECT_EQ(
      read_settings(read_command_line({}), {"ZERO_LR=0.25", "ZERO_SAMPLE=b"}, context).lr,
      0.25);
  const CommandLine prompt =
      read_command_line({"--prompt", "a", "--temperature=0"}, "generate");
  EXPECT_EQ(read_settings(prompt, {}, context).sample, "a");
  EXPECT_EQ(read_settings(prompt, {}, context).sample_temperature, 0);
  EXPECT_FALSE(read_command_line({"--prompt", "a"}, "train").problems.empty());
}

// Who asks whether 24 ranks fit need not know that 32 samples do not feed them.
TEST(Config, APlanWithoutABatchTakesOneThatItsRanksDivide) {
  const auto batch_of = [](const std::vector<std::string>& words) {
    return read_settings(read_command_line(words, "plan"), {},
                         {.verb = "plan", .may_start_ranks = true, .is_complete = false})
        .global_batch;
  };
  EXPECT_EQ(batch_of({"--ranks", "8"}), 32);
  EXPECT_EQ(batch_of({"--ranks", "24"}), 96);
  EXPECT_EQ(batch_of({"--ranks", "24", "--micro-batch", "1"}), 48);
  EXPECT_THROW(batch_of({"--ranks", "24", "--global-batch", "32"}), Error);
}

TEST(Config, AllProblemsAtOnce) {
  TempFolder folder;
  const std::string file = folder.write("run.toml", "seq_lenn = 3\nclip = \"a\"\n");
  const std::string said =
      complaint({{"--config", file, "--lr", "-1", "--foo"},
                 {"ZERO_STEPS=0", "ZERO_SEQ_LNE=1", "ZERO_GLOBAL_BATCH=33"},
                 2});
  EXPECT_THAT(said, HasSubstr("7 settings cannot be used"));
  for (const char* part :
       {"seq_lenn", "clip is", "lr is", "unknown flag --foo", "steps is 0",
        "ZERO_SEQ_LNE", "global_batch 33 is no multiple"}) {
    EXPECT_THAT(said, HasSubstr(part));
  }
}

// What comes later counts, as for one setting.
TEST(Config, StepsAndEpochsTakeEachOthersPlace) {
  const TempFolder folder;
  const auto length = [&](const std::string& file, std::vector<std::string> flags,
                          std::vector<std::string> variables = {}) {
    flags.insert(flags.end(), {"--config", folder.write("a.toml", file)});
    const Settings settings = settings_of({flags, variables});
    return std::pair<int, int>(settings.steps, settings.epochs);
  };
  EXPECT_EQ(length("", {"--epochs", "3"}), std::pair(0, 3));
  EXPECT_EQ(length("steps = 7\n", {"--epochs", "3"}), std::pair(0, 3));
  EXPECT_EQ(length("epochs = 3\n", {"--steps", "7"}), std::pair(7, 0));
  EXPECT_EQ(length("epochs = 3\n", {}, {"ZERO_STEPS=7"}), std::pair(7, 0));
  EXPECT_EQ(length("epochs = 3\nsteps = 0\n", {}), std::pair(0, 3));  // as printed
  EXPECT_EQ(length("epochs = 0\nsteps = 5\n", {}), std::pair(5, 0));
  EXPECT_THAT(complaint({{"--epochs", "3", "--steps", "7"}}),
              HasSubstr("allowed: one of them (--steps, --epochs)"));
  EXPECT_THAT(complaint({{"--steps", "0"}}), HasSubstr("steps is 0, and so is epochs"));
}

TEST(Config, NoConflictIsSeenInWhatCouldNotBeRead) {
  EXPECT_EQ(
      complaint({{"--global-batch", "33", "--micro-batch", "x"}}),
      "micro_batch is \"x\"; allowed: an integer from 1 to 16777216 (--micro-batch)");
  TempFolder folder;
  EXPECT_THAT(complaint({{"--config", folder.write("run.toml", "nonsense"),
                          "--global-batch", "33", "--micro-batch", "16"}}),
              AllOf(HasSubstr("'nonsense' is not TOML"), Not(HasSubstr("global_batch"))));
}

TEST(Config, WhatARunNeeds) {
  const ConfigContext complete;
  ConfigContext template_only;
  template_only.is_complete = false;
  EXPECT_THROW(read_settings({}, {}, complete), Error);
  EXPECT_NO_THROW(read_settings({}, {}, template_only));
}

TEST(Config, BatchesDivideByRanksAndPasses) {
  EXPECT_EQ(complaint({{"--global-batch", "32", "--micro-batch", "16"}, {}, 2}), "");
  EXPECT_EQ(complaint({{"--global-batch", "32", "--micro-batch", "8"}, {}, 2}), "");
  EXPECT_EQ(complaint({{"--global-batch", "33", "--micro-batch", "17"}, {}, 1}),
            "global_batch 33 is no multiple of micro_batch 17 x 1 rank = 17; "
            "nearest: 17 or 34 (--global-batch, --micro-batch)");
  EXPECT_THAT(complaint({{"--global-batch", "33", "--micro-batch", "17"}, {}, 2}),
              HasSubstr("too small for 2 ranks"));
  EXPECT_THAT(complaint({{"--global-batch", "32", "--micro-batch", "18"}, {}, 2}),
              HasSubstr("multiples of 36"));
  EXPECT_EQ(
      complaint({{"--global-batch", "33", "--micro-batch", "17"}, {}, /*not known*/ 0}),
      "");
}

TEST(Config, DeterministicNeedsAPowerOfTwo) {
  EXPECT_EQ(
      complaint(
          {{"--deterministic", "--global-batch", "12", "--micro-batch", "1"}, {}, 4}),
      "");
  EXPECT_THAT(
      complaint(
          {{"--deterministic", "--global-batch", "12", "--micro-batch", "1"}, {}, 3}),
      HasSubstr("deterministic works on 1, 2, 4, 8"));
}

TEST(Config, ModelsAndTheirShapes) {
  EXPECT_THAT(complaint({{"--model", "gpt-2"}}),
              HasSubstr("model is \"gpt-2\"; nearest: gpt2"));
  EXPECT_THAT(complaint({{"--preset", "gpt2-124"}}),
              HasSubstr("nearest: gpt2-124m; allowed: those that zero_launch presets"));
  EXPECT_THAT(complaint({{"--heads", "5"}}),
              HasSubstr("dim 64 is no multiple of heads 5; nearest: dim 60 or 65"));
  EXPECT_THAT(complaint({{"--dim", "3", "--heads", "5"}}),
              HasSubstr("dim 3 is no multiple of heads 5; nearest: dim 5 ("));
  EXPECT_THAT(complaint({{"--kv-heads", "3"}}),
              HasSubstr("heads 4 is no multiple of kv_heads 3"));
}

TEST(Config, APresetChoosesItsFamilyWhereNoModelIsGiven) {
  ModelFamilies models = {some_models()[0], some_models()[0]};
  models[1].name = "other";
  models[1].presets = {{"other-1m", models[0].presets["gpt2-tiny"]}};
  ConfigContext context;
  context.models = &models;
  const auto read = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--data", "d", "--out", "o", "--preset", "other-1m"});
    return read_settings(read_command_line(flags), {}, context);
  };
  EXPECT_EQ(read({}).model, "other");
  EXPECT_EQ(read({"--model", "other"}).model, "other");
  EXPECT_THROW(read({"--model", "gpt2"}), Error);
}

TEST(Config, AProgramWithOneFamilyTrainsThatOne) {
  ModelFamilies models = some_models();
  models[0].name = "mine";
  const auto model = [&] {
    const CommandLine line = read_command_line({"--data", "d", "--out", "o"});
    return read_settings(line, {}, {.models = &models}).model;
  };
  EXPECT_EQ(model(), "mine");
  models.push_back(some_models()[0]);
  EXPECT_EQ(model(), "gpt2");
}

TEST(Config, SettingsThatContradictEachOther) {
  EXPECT_THAT(complaint({{"--lr", "1", "--min-lr", "2"}}),
              HasSubstr("min_lr 2 is above lr 1"));
  EXPECT_THAT(
      complaint({{"--schedule", "cosine", "--warmup-steps", "9", "--steps", "8"}}),
      HasSubstr("above steps 8; allowed: 0 to steps (--warmup-steps, --steps)"))
      << "of three that are set, the two that it names";
  EXPECT_THAT(complaint({{"--decay-steps", "9"}}), HasSubstr("belongs to schedule wsd"));
  for (const char* flag : {"--eval-every=9", "--eval-samples=9", "--keep-best"})
    EXPECT_THAT(complaint({{flag}}), HasSubstr("needs data to evaluate on"));
  EXPECT_EQ(complaint({{"--keep-best", "--eval-fraction=0.1"}}), "");
  EXPECT_EQ(complaint({{"--eval-fraction=0", "--eval-data=e"}}), "");
  EXPECT_THAT(complaint({{"--eval-fraction=0.1", "--eval-data=e"}}),
              HasSubstr("allowed: one of them (--eval-data, --eval-fraction)"));
  EXPECT_THAT(complaint({{"--sample-every", "9"}}), HasSubstr("needs a text"));
  EXPECT_EQ(complaint({{"--sample-every", "9", "--sample", "a"}}), "");
  EXPECT_THAT(complaint({{"--delay", "x"}}), HasSubstr("allowed: POINT=MILLISECONDS"));
  EXPECT_THAT(complaint({{"--override", "lrr"}}), HasSubstr("nearest: lr"));
  EXPECT_THAT(complaint({{"--share-gpu", "--device", "cpu"}}),
              HasSubstr("share_gpu is for a GPU, device is cpu"));
  EXPECT_THAT(complaint({{"--device-memory", "1GiB", "--device", "cpu"}}),
              HasSubstr("device_memory is a GPU's, device is cpu"));
  EXPECT_THAT(complaint({{"--hosts", "f"}}), HasSubstr("allowed: with --ranks N"));
  EXPECT_THAT(complaint({{"--config", ""}}), HasSubstr("--config has no value"));
}

TEST(Config, ASeedMakesWeightsThatAreNotThere) {
  const auto read = [](const std::vector<std::string>& flags) {
    return read_settings(read_command_line(flags, "seed"), {}, {.verb = "seed"});
  };
  EXPECT_NO_THROW(read({"--out", "o"}));
  try {
    read({"--out", "o", "--init-from", "d"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), HasSubstr("seed makes new weights"));
  }
}

TEST(Config, RulesOfTheEngineAreToldWithAllOthersAndNameWhereItWasSet) {
  EXPECT_EQ(
      complaint({{"--state-dtype", "bf16", "--betas", "0.9,0.999", "--steps=9"}}),
      "state_dtype bf16 with betas of up to 0.999; allowed: 0.99 or less: in bf16 such "
      "a mean cannot fall; or state_dtype fp32 (--state-dtype, --betas)");
  EXPECT_EQ(complaint({{"--lr", "1", "--min-lr", "2"}}),
            "min_lr 2 is above lr 1; allowed: 0 to lr (--lr, --min-lr)");
  EXPECT_THAT(complaint({{"--deterministic", "--accumulate=unit", "--master=split",
                          "--eval-every=9"}}),
              AllOf(HasSubstr("deterministic mode with accumulate unit"),
                    HasSubstr("master split belongs to dtype bf16, which is its high "
                              "half, not to fp32 (--master)"),
                    HasSubstr("needs data to evaluate on")));
  EXPECT_EQ(complaint({{"--accumulate", "unit"}}), "");
}

TEST(Config, ALossScaleIsAPowerOfTwoAndOfFp16) {
  const auto with = [](const std::string& dtype, const std::string& key,
                       const std::string& value) {
    return complaint({{"--dtype", dtype, key, value}});
  };
  EXPECT_THAT(with("bf16", "--loss-scale-init", "8"),
              HasSubstr("loss_scale_init belongs to dtype fp16, not to bf16"));
  EXPECT_THAT(with("fp32", "--loss-scale-window", "8"),
              HasSubstr("loss_scale_window belongs to dtype fp16, not to fp32"));
  EXPECT_THAT(with("bf16", "--loss-scale-min", "8"), HasSubstr("belongs to dtype fp16"));
  EXPECT_THAT(with("fp16", "--loss-scale-init", "1000"),
              HasSubstr("loss_scale_init is 1000; allowed: powers of two, as others "
                        "would round gradients; nearest: 512"));
  EXPECT_THAT(with("fp16", "--loss-scale-min", "131072"),
              HasSubstr("loss_scale_min 131072 is above loss_scale_init 65536"));
  EXPECT_EQ(with("fp16", "--loss-scale-min", "65536"), "") << "one that stays";
  EXPECT_THAT(with("fp16", "--loss-scale-init", "33554432"), HasSubstr("16777216"));
  EXPECT_THAT(with("fp16", "--loss-scale-window", "0"), HasSubstr("from 1"));
  EXPECT_THAT(with("fp16", "--master", "split"),
              HasSubstr("master split belongs to dtype bf16"));
  EXPECT_THAT(complaint({{"--initial-scale-power", "16"}}),
              HasSubstr("here: --loss-scale-init"));
  const Settings s = settings_of({{"--dtype", "fp16", "--loss-scale-init", "256",
                                   "--loss-scale-window=5", "--loss-scale-min=2"}});
  EXPECT_EQ(s.loss_scale_init, 256);
  EXPECT_EQ(s.loss_scale_window, 5);
  EXPECT_EQ(s.loss_scale_min, 2);
}

TEST(Config, WhatAnOptimizerDoesNotReadIsRefused) {
  const auto with = [](const std::string& optimizer, const std::string& key,
                       const std::string& value) {
    return complaint({{"--optimizer", optimizer, key, value}});
  };
  EXPECT_THAT(with("sgd", "--betas", "0.8,0.9"),
              HasSubstr("betas belongs to optimizer adamw or lion, not to sgd"));
  EXPECT_THAT(with("lion", "--eps", "1e-6"),
              HasSubstr("eps belongs to optimizer adamw or adagrad, not to lion"));
  EXPECT_THAT(with("adamw", "--momentum", "0.8"),
              HasSubstr("momentum belongs to optimizer sgd, not to adamw"));
  EXPECT_THAT(with("adagrad", "--nesterov", "true"), HasSubstr("nesterov belongs to"));
  EXPECT_THAT(with("sgd", "--momentum", "1"), HasSubstr("below 1"));
  EXPECT_THAT(with("adam", "--lr", "1"), HasSubstr("adamw"));
  EXPECT_EQ(settings_of({{"--optimizer", "sgd", "--momentum", "0.8"}}).momentum, 0.8);
}

TEST(Config, AnotherOptimizerForgetsWhatTheOneBeforeWasTold) {
  Settings base;
  base.betas = {0.9, 0.99};
  const auto read = [&](const std::vector<std::string>& flags) {
    return settings_of({.flags = flags, .base = &base});
  };
  EXPECT_EQ(read({}).betas, base.betas);
  EXPECT_EQ(read({"--optimizer=sgd"}).betas, Settings().betas);
  EXPECT_EQ(read({"--optimizer=lion", "--betas=0.8,0.9"}).betas,
            (std::array<double, 2>{0.8, 0.9}));
  EXPECT_THAT(complaint({.flags = {"--optimizer=sgd", "--betas=0.8,0.9"}, .base = &base}),
              HasSubstr("betas belongs to optimizer adamw or lion, not to sgd"));
}

TEST(Config, SettingsOfTextsNeedATokenizer) {
  EXPECT_EQ(complaint({{"--train-on=last"}}),
            "train_on needs a tokenizer (--tokenizer DIR, or --init-from a folder that "
            "has one) (--train-on)");
  const Settings before;
  for (const char* flag : {"--separator=x", "--train-on=last", "--end-of-turn=x",
                           "--special-in-content=text", "--too-long=drop", "--no-pack"}) {
    EXPECT_THAT(complaint({{flag}}), HasSubstr("needs a tokenizer")) << flag;
    EXPECT_EQ(complaint({{flag, "--bytes", "--init-from=d"}}), "") << flag;
    EXPECT_EQ(complaint({{flag, "--tokenizer=t"}}), "") << flag;
    EXPECT_EQ(complaint({{flag, "--init-from=d"}}), "") << flag;
    EXPECT_EQ(complaint({.flags = {flag}, .base = &before}), "") << flag;
    EXPECT_EQ(complaint({.flags = {flag}, .going_on = &before}), "") << flag;
  }
  EXPECT_EQ(complaint({{"--text-key=body", "--python=p"}}), "");
}

TEST(Config, WhatTheCheckpointSaysIsToldAsItsOwn) {
  Settings base;
  base.eval_fraction = 0.25;
  const std::string said =
      "eval_fraction 0.25 holds out samples of data, and eval_data is there to evaluate "
      "on; allowed: one of them (--eval-fraction 0 --resume must --override "
      "eval_fraction) (--eval-data, the checkpoint)";
  EXPECT_EQ(complaint({.flags = {"--eval-data=e"}, .base = &base}), said);
  EXPECT_EQ(complaint({.flags = {"--eval-data=e"}, .may_begin = true, .going_on = &base}),
            said);
}

TEST(Config, AConstantThatNoFloatHoldsIsToldOnceWithItsFlag) {
  EXPECT_EQ(complaint({{"--weight-decay=1e300", "--group=*: lr=0.1x"}}),
            "weight_decay is 1e+300, must be in [0, 3.4e38] (--weight-decay)");
  EXPECT_EQ(complaint({{"--group=*: lr=0.1x weight_decay=1e35"}}),
            "parameter group '*': learning rate times weight decay is beyond what a "
            "float holds (--group)");
}

TEST(Config, PrintedFileGivesTheSameSettings) {
  Settings settings;
  settings.data = {"a b", "quote\" back\\ tab\t newline\n nul-free \xc3\xa4",
                   "delete\x7f"};
  settings.betas = {0.1, 0.30000000000000004};
  settings.lr = 6.0221e-23;
  settings.seed = 9223372036854775807;
  settings.shuffle = false;
  settings.metrics = {};
  settings.time_limit = 360000;
  settings.sample = "[x] # 'y'";
  settings.trace = {2, 9};
  settings.out = "runs/x";
  TempFolder folder;
  const std::string file = folder.write("run.toml", to_toml(settings));
  ConfigContext context;
  EXPECT_EQ(read_settings(read_command_line({"--config", file}), {}, context), settings);
}

// What the data told belongs to this run's data.
TEST(Config, ARunByEpochsIsWrittenWithoutItsSteps) {
  Settings settings;
  settings.epochs = 3;
  settings.steps = 40;
  EXPECT_THAT(to_toml(settings), HasSubstr("\nsteps = 0 "));
  settings.epochs = 0;
  EXPECT_THAT(to_toml(settings), HasSubstr("\nsteps = 40 "));
}

TEST(Config, JsonGivesTheSameSettings) {
  Settings settings;
  settings.data = {"a", "b"};
  settings.lr = 0.1 + 0.2;
  settings.bind = false;
  settings.time_limit = 61;
  EXPECT_EQ(settings_from_json(to_json(settings), "manifest.json"), settings);
  EXPECT_THROW(settings_from_json({{"from_the_future", 1}}, "manifest.json"), Error);
}

TEST(Config, ChangedSettingsAreThoseThatDefineARun) {
  Settings before, after;
  after.lr = 1;
  after.seed = 2;
  after.prefetch = "3";
  after.steps = 4;
  after.micro_batch = 5;
  after.loss_chunk = 6;
  after.trace = {7, 8};
  const auto changed = changed_settings(before, after);
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0].key, "lr");
  EXPECT_EQ(changed[0].before, "0.0003");
  EXPECT_EQ(changed[1].key, "seed");
}

TEST(SettingTable, EverySettingIsDescribed) {
  for (const Setting& setting : setting_table()) {
    EXPECT_FALSE(setting.group.empty() || setting.allowed.empty() || setting.help.empty())
        << setting.key;
    EXPECT_FALSE(setting.placeholder.empty()) << setting.key;
    EXPECT_EQ(find_setting(setting.key), &setting) << "twice: " << setting.key;
  }
}

TEST(Config, ATimeOutThatNoAnswerCanKeepIsRefused) {
  EXPECT_EQ(complaint({{"--hang-timeout=0"}}), "");
  EXPECT_EQ(complaint({{"--hang-timeout=5s"}}), "");
  EXPECT_THAT(complaint({{"--hang-timeout=4s"}}), ::testing::HasSubstr("5s and more"));
}

}  // namespace
}  // namespace zero::launcher::config_test

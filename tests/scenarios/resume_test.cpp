// A run that was stopped and continued is the run that was never stopped.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::resume_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Resume : public Scenario {
 protected:
  // Steps 1 to 10 in one go, without a stop; returns its state.
  State whole(int ranks, const Words& flags = {}) {
    Words all = {"--steps=10", "--dump-state", path("whole_state")};
    all.insert(all.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(ranks, train("whole", all)).rc, 0);
    return read_state(path("whole_state"));
  }

  void part(int ranks, int steps, Words flags = {}) {
    flags.insert(flags.end(), {"--steps=" + std::to_string(steps), "--dump-state",
                               path("parts_state_" + std::to_string(steps))});
    const Outcome outcome = run(ranks, train("parts", flags));
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
  }

  State after(int steps) const {
    return read_state(path("parts_state_" + std::to_string(steps)));
  }
};

TEST_F(Resume, ContinuesBitForBitAlone) {
  const State all = whole(0);
  part(0, 4);
  part(0, 10);
  expect_same(all, after(10));
  EXPECT_EQ(after(10).losses.size(), 6u);
  EXPECT_EQ(steps("parts"), steps("whole"));
}

TEST_F(Resume, ContinuesBitForBitOnTwoRanks) {
  const State all = whole(2);
  part(2, 4);
  part(2, 10);
  expect_same(all, after(10));
}

TEST_F(Resume, ContinuesWithinWarmupAndDropoutBitForBit) {
  const Words flags = {"--warmup-steps=7", "--dropout=0.2", "--weight-decay=0.3"};
  const State all = whole(0, flags);
  part(0, 4, flags);
  part(0, 10, flags);
  expect_same(all, after(10));
}

TEST_F(Resume, AnyNumberOfRanksContinuesADeterministicRun) {
  const State all = whole(0, {"--deterministic"});
  part(2, 3, {"--deterministic"});
  part(0, 5, {"--deterministic"});
  part(4, 8, {"--deterministic", "--shard-over=2"});
  part(2, 10, {"--deterministic", "--shard-over=1"});
  expect_same(all, after(10));
  EXPECT_EQ(steps("parts"), steps("whole"));
}

// A train command that leaves the model's threads alone but for `flags`.
Words with_free_threads(Words words, const Words& flags = {}) {
  std::erase_if(words, [](const std::string& w) { return w.starts_with("--threads"); });
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

TEST_F(Resume, TakesOverTheThreadsOfTheModel) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  const auto expect_again = [&](Words flags, const std::string& threads) {
    const std::string out = "with_" + threads;
    flags.push_back("--threads=" + threads);
    run(0, with_free_threads(train(out, {"--steps=1"}), flags));
    flags.pop_back();
    for (const char* steps : {"--steps=2", "--steps=3"}) {
      const Outcome again = run(0, with_free_threads(train(out, {steps}), flags));
      EXPECT_THAT(again.out,
                  AllOf(HasSubstr("1 with " + threads + " thread(s)"),
                        HasSubstr("resumed step"), Not(HasSubstr("bits may differ"))));
      EXPECT_EQ(last_of(metrics(out, "run"))["world"]["threads"], std::stoi(threads));
    }
  };
  expect_again({"--deterministic"}, "2");  // not one
  expect_again({}, "1");                   // not every core
}

TEST_F(Resume, OtherThreadsAreSaidAndKept) {
  const auto step = [&](int steps, const std::string& threads) {
    const Words words = train("a", {"--steps=" + std::to_string(steps)});
    return run(0, with_free_threads(words, {"--threads=" + threads})).out;
  };
  step(1, "1");
  EXPECT_THAT(step(2, "3"), AllOf(HasSubstr("threads was 1, is 3, so bits may differ"),
                                  HasSubstr("1 with 3 thread(s)")));
  EXPECT_THAT(step(3, "3"), Not(HasSubstr("bits may differ")));
}

TEST_F(Resume, TheFolderAloneGoesOnWithTheRunsSettings) {
  const State all = whole(0);
  part(0, 4);
  const Outcome outcome = run(0, verb("train", {"--out", path("parts"), "--steps=10",
                                                "--dump-state", path("parts_state_10")}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("of " + path("parts/step_000000000004") + ": data "),
                    HasSubstr("resumed step 4")));
  expect_same(all, after(10));
  const Outcome finished = run(0, verb("train", {"--out", path("parts")}));
  EXPECT_EQ(finished.rc, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("this run is finished"));
  const Outcome other =
      run(0, verb("train", {"--out", path("parts"), "--steps=12", "--lr=1"}));
  EXPECT_EQ(other.rc, 2);
  EXPECT_THAT(other.err, HasSubstr("lr was 0.0003, is 1"));
  // The cure that is told; and settings that only fit the run's own.
  const Outcome overridden =
      run(0, verb("train", {"--out", path("parts"), "--steps=11", "--lr=1",
                            "--resume=must", "--override", "lr"}));
  EXPECT_EQ(overridden.rc, 0) << overridden.err;
  const Outcome fewer = run(0, verb("train", {"--out", path("parts"), "--steps=12",
                                              "--lr=1", "--micro-batch=8"}));
  EXPECT_EQ(fewer.rc, 0) << fewer.err;
  const Outcome wrong =
      run(0, verb("train", {"--out", path("parts"), "--steps=abc", "--micro-batch=8"}));
  EXPECT_EQ(wrong.rc, 2);
  EXPECT_THAT(wrong.err, HasSubstr("zero: steps is \"abc\"; allowed:")) << "and no more";
  const Outcome none = run(0, verb("train", {"--out", path("nothing")}));
  EXPECT_EQ(none.rc, 2);
  EXPECT_THAT(none.err, HasSubstr("data is missing"));
}

TEST_F(Resume, AFreshStartIsSaid) {
  EXPECT_THAT(run(0, train("a", {"--steps=1"})).out, HasSubstr("fresh start"));
  EXPECT_THAT(run(0, train("a", {"--steps=2"})).out, HasSubstr("resumed step 1 from"));
}

TEST_F(Resume, AFinishedRunSaysSo) {
  run(0, train("a", {"--steps=3"}));
  const Outcome again = run(2, train("a", {"--steps=3"}));
  EXPECT_EQ(again.rc, 0);
  EXPECT_THAT(again.out, HasSubstr("this run is finished: step 3 of 3"));
  EXPECT_THAT(again.out, Not(HasSubstr("generate")));
  const Outcome sampled = run(1, train("a", {"--steps=3", "--sample=a"}));
  EXPECT_EQ(sampled.rc, 0) << sampled.err;
  EXPECT_THAT(sampled.out, HasSubstr("zero_launch generate --from " + path("a")));
  EXPECT_THAT(steps("a"), ElementsAre(1, 2, 3));
}

TEST_F(Resume, SavesOnTheWayAndKeepsAsManyAsAsked) {
  const Outcome outcome = run(0, train("a", {"--steps=7", "--save-every=2", "--keep=2"}));
  EXPECT_THAT(outcome.out, HasSubstr("saved step 4 in"));
  EXPECT_THAT(checkpoints("a"), ElementsAre("step_000000000006", "step_000000000007"));
}

TEST_F(Resume, MustWantsACheckpoint) {
  const Outcome outcome = run(0, train("a", {"--steps=3", "--resume=must"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--resume must"));
  EXPECT_FALSE(has("a"));
}

TEST_F(Resume, NeverWantsNone) {
  run(0, train("a", {"--steps=1", "--resume=never"}));
  const Outcome outcome = run(0, train("a", {"--steps=3", "--resume=never"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--resume never"));
}

TEST_F(Resume, AMissingStepNamesTheFlag) {
  run(0, train("a", {"--steps=1"}));
  const std::string step = path("a/step_000000000009");
  const Outcome outcome = run(0, train("b", {"--steps=3", "--resume", step}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--resume"));
  EXPECT_THAT(outcome.err, HasSubstr(step));
  EXPECT_EQ(run(0, train("b", {"--steps=3", "--resume="})).rc, 2);
  EXPECT_FALSE(has("b"));
}

TEST_F(Resume, StartsFromAnotherRunsStep) {
  const State all = whole(0, {"--save-every=4"});
  write("whole/source/config.json", "{}");  // as of a run that began with --init-from
  part(0, 10, {"--resume", path("whole/step_000000000008")});
  expect_same(all, after(10));
  EXPECT_EQ(after(10).losses.size(), 2u);
  EXPECT_TRUE(has("parts/source/config.json"));
}

TEST_F(Resume, TwoHistoriesDoNotShareAFolder) {
  run(0, train("a", {"--steps=4", "--save-every=2"}));
  run(0, train("b", {"--steps=4"}));
  const Outcome back =
      run(0, train("a", {"--steps=9", "--resume", path("a/step_000000000002")}));
  EXPECT_EQ(back.rc, 2);
  EXPECT_THAT(back.err, HasSubstr("newer checkpoint of step 4"));
  EXPECT_EQ(run(0, train("a", {"--steps=9", "--resume", path("b")})).rc, 2);
}

// A run that ended without a checkpoint: its log is none of the run that goes on there.
TEST_F(Resume, ElsewhereALogOfAnotherRunIsKept) {
  run(0, train("a", {"--steps=3"}));
  run(0, train("b", {"--steps=4", "--save-at-end=false"}));
  const Outcome outcome = run(0, train("b", {"--steps=5", "--resume", path("a")}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(read_file(path("b/metrics.jsonl.1")), HasSubstr("\"type\":\"end\""));
  EXPECT_EQ(metrics("b", "step").size(), 2u);
  EXPECT_EQ(metrics("b", "step")[0]["step"], 4);
}

TEST_F(Resume, ChangedSettingsAreListedTogether) {
  run(0, train("a", {"--steps=2"}));
  const Outcome outcome =
      run(2, train("a", {"--steps=4", "--lr=0.01", "--seed=3", "--betas=0.8,0.9"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("lr was 0.0003, is 0.01"));
  EXPECT_THAT(outcome.err, HasSubstr("seed was 0, is 3"));
  EXPECT_THAT(outcome.err, HasSubstr("betas was [0.9,0.95], is [0.8,0.9]"));
  EXPECT_THAT(outcome.err, HasSubstr("--resume must --override"));
}

TEST_F(Resume, AnOverriddenSettingMayChange) {
  run(0, train("a", {"--steps=2"}));
  const Words flags = {"--steps=4", "--lr=0.01", "--override", "lr"};
  EXPECT_EQ(run(0, train("a", flags)).rc, 0);
  EXPECT_EQ(last_of(metrics("a", "step"))["lr"], 0.01);
  // It is the run's own from now on.
  EXPECT_EQ(run(0, train("a", {"--steps=5", "--lr=0.01"})).rc, 0);
}

TEST_F(Resume, WhatIsTrainedMayChangeAndIsSaid) {
  const auto go_on = [&](const std::string& steps, const Words& flags) {
    Words all = {"--steps=" + steps, "--resume=must", "--override", "freeze"};
    all.insert(all.end(), flags.begin(), flags.end());
    return run(0, train("a", all));
  };
  run(0, train("a", {"--steps=2", "--freeze", "transformer.h.0.*"}));
  const Outcome thawed = go_on("3", {});
  EXPECT_EQ(thawed.rc, 0) << thawed.err;
  EXPECT_THAT(thawed.out,
              HasSubstr("trained again, with moments that start at zero: 12 ("));
  const Outcome frozen = go_on("4", {"--freeze=transformer.ln_f.*"});
  EXPECT_EQ(frozen.rc, 0) << frozen.err;
  EXPECT_THAT(frozen.out, HasSubstr("frozen now, their moments are dropped: 2 ("));
  const Outcome all = go_on("5", {"--freeze=*"});
  EXPECT_EQ(all.rc, 2);
  EXPECT_THAT(all.err, HasSubstr("every parameter is frozen"));
}

TEST_F(Resume, AnotherShapeIsNamedWithBothAndIsNoDamage) {
  run(0, train("a", {"--steps=2"}));
  Words words = train("a", {"--steps=4", "--override", "seq_len"});
  *std::ranges::find(words, "--seq-len=16") = "--seq-len=8";
  const Outcome outcome = run(0, words);
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("seq_len was 16, is 8"));
  EXPECT_THAT(outcome.err,
              HasSubstr("shape params/transformer.wpe.weight: the model has (8"));
  EXPECT_THAT(outcome.err, HasSubstr("the checkpoint has ("));
  EXPECT_THAT(outcome.err, Not(HasSubstr("damaged")));
}

TEST_F(Resume, EveryOptimizerAndStorageGoesOnWithTheSameBits) {
  const std::map<std::string, Words> kinds = {
      {"sgd", {"--optimizer=sgd"}},
      {"lion", {"--optimizer=lion"}},
      {"adagrad", {"--optimizer=adagrad"}},
      {"16_bits", {"--dtype=bf16", "--master=split", "--state-dtype=bf16"}},
      // Overflows at first, and whenever the scale has doubled.
      {"fp16", {"--dtype=fp16", "--loss-scale-init=16777216", "--loss-scale-window=1"}}};
  for (const auto& [kind, flags] : kinds) {
    SCOPED_TRACE(kind);
    const auto to = [&](const std::string& run, int steps, const std::string& dump) {
      Words words = train(run, flags);
      words.insert(words.end(),
                   {"--deterministic", "--lr=1e-3", "--steps=" + std::to_string(steps),
                    "--dump-state=" + path(dump)});
      return words;
    };
    const std::string whole = kind + "_whole", half = kind + "_half";
    EXPECT_EQ(run(0, to(whole, 4, whole + "_dump")).rc, 0);
    EXPECT_EQ(run(2, to(half, 2, half + "_first")).rc, 0);
    EXPECT_EQ(run(0, to(half, 4, half + "_dump")).rc, 0);
    expect_same(read_state(path(whole + "_dump")), read_state(path(half + "_dump")));
  }
}

// Weights so large that every later step is skipped: at the end step 1 is to be saved
// anew.
TEST_F(Resume, AStepThatWasMovedAndLinkedBackIsNotSavedAgain) {
  const auto go_on = [&](const std::string& max_bad_steps) {
    return run(0, train("a", {"--lr=1e30", "--clip=0", "--epochs=1", "--save-every=1",
                              "--max-bad-steps", max_bad_steps}));
  };
  EXPECT_EQ(go_on("2").rc, 4);
  const std::string step = path("a/step_000000000001");
  std::filesystem::rename(step, path("moved"));
  std::filesystem::create_directory_symlink(path("moved"), step);
  const std::string before = read_file(path("moved/manifest.json"));
  const Outcome outcome = go_on("0");
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("step 1 is saved already, behind a link"));
  EXPECT_EQ(read_file(path("moved/manifest.json")), before);
  EXPECT_TRUE(std::filesystem::is_symlink(step));
}

TEST_F(Resume, OverflowsOfFp16ArePartOfTheRun) {
  const Words fp16 = {"--dtype=fp16", "--loss-scale-init=16777216", "--steps=3",
                      "--save-every=2"};
  const Outcome outcome = run(2, train("a", fp16));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" | scale 16777216 | skipped: "));
  const auto records = metrics("a", "step");
  EXPECT_TRUE(records.at(0)["skipped"].get<bool>());
  EXPECT_EQ(records.at(0)["step"], 0);
  EXPECT_EQ(records.at(0)["loss_scale"], 16777216);
  EXPECT_EQ(records.at(1)["loss_scale"], 8388608);
  EXPECT_FALSE(last_of(records).contains("skipped"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("saved step 0"))) << "no batch was taken yet";
  const std::string scale = last_of(records)["loss_scale"].dump();
  EXPECT_THAT(read_file(path("a/step_000000000003/manifest.json")),
              AllOf(HasSubstr("\"loss_scale\":" + scale),
                    HasSubstr("\"loss_scale_clean_steps\":3")));
  const Outcome other = run(0, train("a", {"--dtype=fp16", "--steps=4"}));
  EXPECT_EQ(other.rc, 2);
  EXPECT_THAT(other.err, HasSubstr("loss_scale_init was 16777216, is 65536"));
  EXPECT_EQ(run(0, verb("eval", {"--from", path("a"), "--data", path("data.txt")})).rc,
            0);
  const Words prompt = {"--from", path("a"), "--sample=a", "--sample-tokens=3"};
  EXPECT_EQ(run(0, verb("generate", prompt)).rc, 0);
}

TEST_F(Resume, AnotherOptimizerIsRefusedOrStartsItsStateAfresh) {
  run(0, train("a", {"--steps=2", "--betas=0.9,0.99"}));
  const Words lion = {"--steps=4", "--optimizer=lion", "--lr=1e-4", "--betas=0.9,0.98"};
  const Outcome refused = run(0, train("a", lion));
  EXPECT_EQ(refused.rc, 2);
  EXPECT_THAT(refused.err, HasSubstr("optimizer was \"adamw\", is \"lion\""));
  EXPECT_THAT(refused.err, HasSubstr("--resume must --override optimizer lr"));
  Words overridden = lion;
  overridden.insert(overridden.end(), {"--override", "optimizer", "lr"});
  const Outcome fresh = run(0, train("a", overridden));
  EXPECT_EQ(fresh.rc, 0) << fresh.err;
  EXPECT_THAT(fresh.out,
              HasSubstr("optimizer was adamw, is lion: its state starts afresh"));
  EXPECT_EQ(last_of(metrics("a", "step"))["step"], 4);
  const Outcome alone =
      run(0, verb("train", {"--out", path("a"), "--steps=5", "--resume=must",
                            "--optimizer=sgd", "--override", "optimizer"}));
  EXPECT_EQ(alone.rc, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("optimizer was lion, is sgd"));
}

TEST_F(Resume, AnUnknownOverrideIsRefused) {
  const Outcome outcome = run(0, train("a", {"--steps=2", "--override", "lrr"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("lrr"));
}

TEST_F(Resume, MoreStepsRaiseADecayingRateAndFewerWantAnOverride) {
  const auto to = [&](const std::string& steps, const Words& more = {}) {
    Words flags = {"--schedule=cosine", "--steps=" + steps};
    flags.insert(flags.end(), more.begin(), more.end());
    return run(0, train("a", flags));
  };
  to("4", {"--save-every=2", "--keep=0"});
  std::filesystem::remove_all(path("a/step_000000000004"));
  const Outcome refused = to("3");
  EXPECT_EQ(refused.rc, 2);
  EXPECT_THAT(refused.err, HasSubstr("--override steps"));
  const Outcome longer = to("8");
  EXPECT_EQ(longer.rc, 0) << longer.err;
  EXPECT_THAT(longer.out, HasSubstr("steps was 4, is 8, under schedule cosine: the rate "
                                    "of step 3 was 1.5e-04, is 2.6e-04"));
}

// What a run chose when it began stays, whatever is chosen for new ones.
TEST_F(Resume, WhatIsNotGivenIsTheCheckpoints) {
  const auto begin_and_go_on = [&](const std::string& out, const Words& flags) {
    Words words = train(out, flags);
    EXPECT_EQ(run(0, words).rc, 0);
    std::erase_if(words, [](const std::string& word) {
      return word.starts_with("--schedule") || word.starts_with("--eval-fraction");
    });
    *std::ranges::find(words, "--steps=100") = "--steps=150";
    return run(2, words);
  };
  const Outcome old = begin_and_go_on("old", {"--steps=100"});
  EXPECT_EQ(old.rc, 0) << old.err;
  EXPECT_THAT(old.out, Not(HasSubstr("held out")));
  EXPECT_EQ(last_of(metrics("old", "step"))["lr"], 3e-4);
  const Words chosen = {"--steps=100", "--schedule=linear", "--eval-fraction=0.1"};
  const Outcome other = begin_and_go_on("other", chosen);
  EXPECT_EQ(other.rc, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("the last 125 samples of the data, held out"));
  const nlohmann::json config = last_of(metrics("other", "run"))["config"];
  EXPECT_EQ(config["warmup_steps"], 2);
  EXPECT_EQ(config["accumulate"], "model");  // of a CPU auto
}

TEST_F(Resume, TheBestCheckpointIsKeptAndNamed) {
  Words flags = {"--steps=8",      "--lr=1",   "--clip=0",   "--eval-fraction=0.1",
                 "--eval-every=1", "--keep=1", "--keep-best"};
  const Outcome outcome = run(2, train("a", flags));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  const auto evaluations = metrics("a", "eval");
  const auto best = std::ranges::min_element(evaluations, {}, [](const auto& record) {
    return record["loss"].template get<double>();
  });
  ASSERT_LT((*best)["step"], 8) << "at such a rate the loss should rise";
  const std::string name = "step_00000000000" + (*best)["step"].dump();
  EXPECT_THAT(checkpoints("a"), ElementsAre(name, "step_000000000008"));
  EXPECT_EQ(read_file(path("a/best")), name + "\n");
  EXPECT_THAT(outcome.out, HasSubstr("best: step " + (*best)["step"].dump() + ", "));

  std::ranges::replace(flags, "--steps=8", "--steps=9");
  Words elsewhere = train("b", flags);
  elsewhere.insert(elsewhere.end(), {"--resume", path("a")});
  EXPECT_EQ(run(0, elsewhere).rc, 0);
  EXPECT_EQ(read_file(path("b/best")), "step_000000000009\n") << "all that is there";
}

TEST_F(Resume, WhatIsBestOnOtherDataBeginsAnew) {
  const auto best = [&](const char* steps, const std::string& file) {
    const std::string data = write(file, read_file(path("data.txt")));
    const Outcome outcome = run(0, train("a", {steps, "--lr=0", "--keep-best",
                                               "--eval-samples=8", "--eval-data", data}));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    return read_file(path("a/best"));
  };
  EXPECT_EQ(best("--steps=1", "one.txt"), "step_000000000001\n");
  EXPECT_EQ(best("--steps=2", "one.txt"), "step_000000000001\n") << "it is no better";
  EXPECT_EQ(best("--steps=3", "other.txt"), "step_000000000003\n");
}

TEST_F(Resume, OtherDataIsNoticedAndMovedDataIsNot) {
  run(0, train("a", {"--steps=2"}));
  const std::string text = read_file(path("data.txt"));
  std::filesystem::create_directory(path("moved"));
  Words words = train("a", {"--steps=3"});
  words[3] = write("moved/data.txt", text);
  const Outcome moved = run(0, words);
  EXPECT_EQ(moved.rc, 0) << moved.err;
  words = train("a", {"--steps=4"});
  words[3] = write("moved/data.txt", text + "and more");
  const Outcome other = run(0, words);
  EXPECT_EQ(other.rc, 2);
  EXPECT_THAT(other.err, HasSubstr("data was 20001 tokens with hash"));
}

TEST_F(Resume, DataIsFoundFromAnotherFolder) {
  const std::string relative =
      std::filesystem::relative(write("held.txt", read_file(path("data.txt"))));
  run(0, train("a", {"--steps=1", "--eval-data", relative}));
  Words words = {"sh", "-c", "cd / && exec \"$@\"", "sh"};
  for (const std::string& word : verb("eval", {path("a"), "--threads=1"}))
    words.push_back(word);
  const Outcome outcome = run(0, words);
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
}

// The short last batch of an epoch is as short in what comes behind it.
TEST_F(Resume, MoreEpochsTakeEachSampleAgain) {
  Words words = train("a", {"--epochs=1"});
  words[3] = write("few.txt", read_file(path("data.txt")).substr(0, 20 * 16));
  EXPECT_EQ(run(0, words).rc, 0);
  std::ranges::replace(words, std::string("--epochs=1"), std::string("--epochs=2"));
  EXPECT_EQ(run(0, words).rc, 0);
  int64_t tokens = 0;
  for (const auto& record : metrics("a", "step"))
    tokens += record["tokens"].get<int64_t>();
  const std::string manifest =
      read_file(path("a/" + last_of(checkpoints("a")) + "/manifest.json"));
  EXPECT_THAT(manifest, HasSubstr("\"num_samples\":40"));
  EXPECT_EQ(tokens, 40 * 16);
}

TEST_F(Resume, AChangedBatchUsesNoSampleTwice) {
  const auto smaller = [&](const std::string& out, const Words& flags) {
    Words words = train(out, flags);
    *std::ranges::find(words, "--global-batch=8") = "--global-batch=4";
    return words;
  };
  run(0, train("a", {"--steps=3", "--lr=0"}));
  EXPECT_EQ(
      run(0, smaller("a", {"--steps=5", "--lr=0", "--override", "global_batch"})).rc, 0);
  EXPECT_EQ(run(0, smaller("b", {"--steps=8", "--lr=0"})).rc, 0);  // as many samples
  const auto resumed = metrics("a", "step"), whole = metrics("b", "step");
  EXPECT_EQ(resumed.at(3)["loss"], whole.at(6)["loss"]);
  EXPECT_EQ(resumed.at(4)["loss"], whole.at(7)["loss"]);
  const std::string manifest = read_file(path("a/step_000000000005/manifest.json"));
  EXPECT_THAT(manifest, HasSubstr("\"num_samples\":32"));
}

TEST_F(Resume, TwoRunsGiveTheSameMetricsButForTimes) {
  const auto numbers = [&](const std::string& out) {
    run(2, train(out, {"--steps=5"}));
    std::vector<nlohmann::json> records = metrics(out, "step");
    for (auto& record : records) {
      for (const char* key :
           {"seconds", "tokens_per_second", "updates_per_second", "host_bytes_free",
            "host_bytes_peak", "share_compute", "share_waiting", "share_weights",
            "share_gradients", "share_optimizer", "share_saves", "wall"})
        record.erase(key);
    }
    return records;
  };
  EXPECT_EQ(numbers("a"), numbers("b"));
}

TEST_F(Resume, ACrashedRunsStepsAreNotToldTwice) {
  const Words flags = {"--steps=100000", "--save-every=5", "--keep=0",
                       "--metrics=jsonl,csv", "--delay=adam=5"};
  auto crashed = start(0, train("a", flags));
  ASSERT_TRUE(wait_for_step("a", 13));
  crashed->send(SIGKILL);
  crashed->wait();
  // Its record comes with the next step, and the kill may have come before that.
  const int64_t saved = std::stoll(checkpoints("a").back().substr(5));
  const std::string more = "--steps=" + std::to_string(saved + 4);
  const Outcome outcome = run(0, train("a", {more, "--metrics=jsonl,csv"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  std::vector<int64_t> expected;
  for (int64_t step = 1; step <= saved + 4; ++step) expected.push_back(step);
  EXPECT_EQ(steps("a"), expected);
  EXPECT_EQ(std::ranges::count(read_file(path("a/metrics.csv")), '\n'),
            std::ssize(expected) + 1);
  ASSERT_EQ(metrics("a", "resume").size(), 1u);
  EXPECT_EQ(metrics("a", "resume")[0]["step"], saved);
}

// Of an hour-long run with a short step, say.
TEST_F(Resume, HalfAMillionRecordsCostNoMemory) {
  ASSERT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
  const Outcome few = run(0, train("a", {"--steps=3", "--override=steps"}));
  const std::string log = read_file(path("a/metrics.jsonl"));
  const size_t first_step = log.find("{\"type\":\"step\"");
  ASSERT_NE(first_step, log.npos);
  const std::string record =
      log.substr(first_step, log.find('\n', first_step) + 1 - first_step);
  {
    std::ofstream long_log(path("a/metrics.jsonl"));
    long_log << log.substr(0, first_step);
    for (int i = 0; i < 500'000; ++i) long_log << record;
    long_log << log.substr(first_step);
  }
  const Outcome many = run(0, train("a", {"--steps=4", "--override=steps"}));
  EXPECT_EQ(many.rc, 0) << many.err;
  EXPECT_LT(many.peak_bytes - few.peak_bytes, 50 << 20);
  EXPECT_EQ(steps("a").size(), 500'004u);
}

}  // namespace
}  // namespace zero::scenarios::resume_test

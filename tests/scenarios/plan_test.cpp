// Somebody asks whether a model fits before they wait for it, or does not ask.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::plan_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Plan : public Scenario {
 protected:
  Outcome plan(const Words& flags) { return run(0, verb("plan", flags)); }

  json plan_json(Words flags) {
    flags.push_back("--json");
    return json::parse(plan(flags).out);
  }
};

TEST_F(Plan, AModelThatFitsAndOneThatDoesNot) {
  EXPECT_EQ(plan({"--preset=gpt2-tiny"}).rc, 0);
  const Outcome large = plan({"--preset=gpt2-1.5b", "--host-memory=4GiB"});
  EXPECT_EQ(large.rc, 3);
  EXPECT_THAT(large.out, HasSubstr("does not fit"));
  EXPECT_THAT(large.out, HasSubstr("nearest"));
  EXPECT_THAT(large.out, HasSubstr("largest  of this shape"));
}

TEST_F(Plan, WhatItWritesFitsAndIsNobodyElses) {
  const std::string file = path("run.toml");
  const Words asked = {"--preset=gpt2-10m", "--recompute=none", "--seq-len=256",
                       "--global-batch=32", "--micro-batch=32", "--host-memory=700MiB",
                       "--write=" + file};
  EXPECT_EQ(plan(asked).rc, 3);
  const Outcome again = plan({"--config=" + file});
  EXPECT_EQ(again.rc, 0) << again.out << again.err;
  EXPECT_THAT(read_file(file), HasSubstr("\nmicro_batch = "));
  EXPECT_THAT(read_file(file), HasSubstr("\n# warmup_steps = "));  // a run's own choice
  const Outcome taken = plan(asked);
  EXPECT_EQ(taken.rc, 2);
  EXPECT_THAT(taken.err, HasSubstr("it is there already"));
}

TEST_F(Plan, AGpuThatIsNotHere) {
  Words flags = {"--preset=gpt2-124m", "--device=cuda", "--host-memory=64GiB"};
  const Outcome unknown = plan(flags);
  EXPECT_EQ(unknown.rc, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--device-memory SIZE"));
  flags.push_back("--device-memory=80GiB");
  const Outcome large = plan(flags);
  EXPECT_EQ(large.rc, 0) << large.out;
  EXPECT_THAT(large.out, HasSubstr("CUDA itself, about"));
  const json told = plan_json(flags);
  EXPECT_EQ(told["gpu_bytes_available"], int64_t{80} << 30);
  int64_t slots = 0, shards = 0;
  for (const json& entry : told["engine"])
    (entry["tier"] == "device" ? slots : shards) += entry["bytes"].get<int64_t>();
  EXPECT_GT(slots, 0);
  EXPECT_GT(told["gpu_bytes_per_rank"], slots);
  EXPECT_GE(told["bytes_per_node"], shards);
  EXPECT_LT(
      told["bytes_per_node"].get<int64_t>() + told["gpu_bytes_per_rank"].get<int64_t>(),
      told["bytes_per_rank"].get<int64_t>() + 1);
  flags.back() = "--device-memory=1GiB";
  const Outcome small = plan(flags);
  EXPECT_EQ(small.rc, 3);
  EXPECT_THAT(small.out, HasSubstr("1.0 GiB (--device-memory)"));
  EXPECT_THAT(plan({"--device=cpu", "--device-memory=1GiB"}).err,
              HasSubstr("device_memory is a GPU's"));
}

// Of 124M parameters, whose weights and states take 2.2 GB.
TEST_F(Plan, AGpuKeepsWhatFits) {
  const Words flags = {"--preset=gpt2-124m", "--device=cuda", "--host-memory=64GiB"};
  const auto planned = [&](const Words& more) {
    Words all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return plan_json(all);
  };
  std::vector<std::string> ways;
  for (const char* size : {"16GiB", "5GiB", "3500MiB", "3GiB", "2750MiB", "2500MiB"}) {
    const json told = planned({std::string("--device-memory=") + size});
    if (!told["fits"]) continue;
    if (ways.empty() || ways.back() != told["offload"]) ways.push_back(told["offload"]);
    const auto bytes = told["gpu_bytes_per_rank"].get<double>();
    if (told["offload"] != "all") {
      EXPECT_LE(bytes, 0.9 * told["gpu_bytes_available"].get<double>());
    }
  }
  EXPECT_THAT(ways, ::testing::ElementsAre("none", "optimizer", "all"));
  const json some =
      planned({"--device-memory=3GiB", "--device-state-fraction=auto", "--offload=all"});
  EXPECT_GT(some["device_state_fraction"], 0);
  EXPECT_LT(some["device_state_fraction"], 1);
  EXPECT_THAT(plan({"--preset=gpt2-124m", "--device=cuda", "--device-memory=16GiB"}).out,
              HasSubstr("which keeps weights and states (offload none)"));
  EXPECT_EQ(planned({"--device-memory=3GiB", "--offload=none"})["fits"], false);
}

TEST_F(Plan, SeventyBillionInNoMemory) {
  const Words flags = {"--layers=80",    "--dim=8192",     "--heads=64",
                       "--vocab=128256", "--seq-len=4096", "--ranks=8"};
  const Outcome help = run(0, {ZERO_LAUNCH, "--help"}), large = plan(flags);
  EXPECT_EQ(large.rc, 3) << large.err;
  EXPECT_LT(large.peak_bytes - help.peak_bytes, 50 << 20);
  const json told = plan_json(flags);
  EXPECT_EQ(told["model"]["parameters"], 65517273088);
  // 16 bytes a parameter of state and gradients, shared by 8 ranks.
  EXPECT_GT(told["engine_bytes_per_rank"], 65517273088 * 2);
}

TEST_F(Plan, ARunTakesWhatWasPlanned) {
  for (const Words& flags :
       {Words{"--preset=gpt2-tiny", "--recompute=unit"},
        Words{"--preset=gpt2-tiny", "--dtype=bf16"},
        Words{"--preset=gpt2-tiny", "--accumulate=unit"},
        Words{"--model=gptj", "--vocab=9000", "--accumulate=unit", "--loss-chunk=0"},
        Words{"--model=gptj", "--vocab=9000", "--accumulate=unit", "--loss-chunk=16"},
        Words{"--model=gptj", "--vocab=9000", "--accumulate=unit", "--loss-chunk=0",
              "--recompute=none"},
        Words{"--model=gptj", "--vocab=9000", "--accumulate=unit", "--loss-chunk=16",
              "--recompute=none"},
        Words{"--preset=gpt2-10m", "--recompute=none"},
        Words{"--preset=gpt2-10m", "--recompute=every:2"},
        Words{"--preset=gpt2-10m", "--recompute=every:3"},
        Words{"--preset=gpt2-10m", "--dtype=bf16"},
        Words{"--preset=gpt2-10m", "--units=sublayer"},
        Words{"--preset=gpt2-10m", "--units=sublayer", "--recompute=none"},
        Words{"--model=gptj", "--units=sublayer"},
        Words{"--model=llama", "--units=sublayer", "--recompute=every:2"},
        Words{"--preset=gpt2-10m", "--lora=r=64,dropout=0.1", "--recompute=none"},
        Words{"--preset=gpt2-10m", "--lora=r=16", "--dtype=bf16"},
        Words{"--preset=llama-10m", "--lora=r=64,dropout=0.1", "--dtype=bf16"},
        Words{"--preset=gpt2-tiny", "--vocab=9000", "--loss-chunk=0"},
        Words{"--preset=gpt2-tiny", "--vocab=9000", "--loss-chunk=16"},
        Words{"--preset=gpt2-tiny", "--vocab=9000", "--loss-chunk=16", "--dtype=bf16"}}) {
    Words asked = flags;
    asked.insert(asked.end(), {"--global-batch=4", "--micro-batch=2"});
    const json told = plan_json(asked);
    asked.insert(asked.end(),
                 {"--steps=1", "--data=" + path("data.txt"), "--out=" + path("a")});
    std::filesystem::remove_all(path("a"));
    ASSERT_EQ(run(0, verb("train", asked)).rc, 0);
    const json used = metrics("a", "memory").at(0);
    EXPECT_EQ(used["engine_allocated"], told["engine_bytes_per_rank"]);
    const double ratio = told["activation_bytes_per_rank"].get<double>() /
                         used["activations_peak"].get<double>();
    EXPECT_NEAR(ratio, 1, 0.15) << ::testing::PrintToString(flags);
  }
}

TEST_F(Plan, ARunThatDoesNotFitIsRefusedBeforeItTakesAnything) {
  for (const int ranks : {0, 2}) {
    const Words flags = {"--steps=1", "--host-memory=400KiB"};
    const Outcome refused = run(ranks, train("a", flags));
    EXPECT_EQ(refused.rc, 3);
    EXPECT_THAT(refused.err, HasSubstr("memory does not suffice"));
    EXPECT_THAT(refused.err, HasSubstr("--ignore-plan"));
    EXPECT_FALSE(has("a"));
  }
  const Outcome forced =
      run(0, train("a", {"--steps=1", "--host-memory=400KiB", "--ignore-plan"}));
  EXPECT_EQ(forced.rc, 0) << forced.err;
  EXPECT_THAT(forced.out, HasSubstr("planned"));
}

// What the plan tells is a limit, to a twentieth: with the program and its starter.
TEST_F(Plan, ARunNeedsWhatThePlanTells) {
  const Words shape = {"--preset=gpt2-10m", "--micro-batch=4", "--global-batch=8",
                       "--ranks=2"};
  const auto all = plan_json(shape)["bytes_per_node"].get<double>();
  const auto with_room = [&](double room, const Words& more) {
    Words words = {ZERO_LAUNCH,
                   "train",
                   "--steps=1",
                   "--data=" + path("data.txt"),
                   "--out=" + path("a"),
                   "--host-memory=" + std::to_string(static_cast<int64_t>(room))};
    words.insert(words.end(), shape.begin(), shape.end());
    words.insert(words.end(), more.begin(), more.end());
    return run(0, words);
  };
  const Outcome refused = with_room(0.95 * all, {});
  EXPECT_EQ(refused.rc, 3);
  EXPECT_THAT(refused.err, HasSubstr("engine, activations and program take about"));
  EXPECT_FALSE(has("a"));
  const Outcome forced = with_room(0.95 * all, {"--ignore-plan"});
  EXPECT_EQ(forced.rc, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("memory may not suffice"));
  std::filesystem::remove_all(path("a"));
  const Outcome runs = with_room(1.05 * all, {});
  EXPECT_EQ(runs.rc, 0) << runs.err;
  EXPECT_THAT(runs.err, Not(HasSubstr("memory may not suffice")));
}

// A control group of its own for a program; version 1, and root, or there is none.
class MemoryGroup {
 public:
  explicit MemoryGroup(int64_t bytes)
      : folder_("/sys/fs/cgroup/memory/zero_test_" + std::to_string(::getpid())) {
    std::error_code error;
    std::filesystem::create_directory(folder_, error);
    std::ofstream(folder_ + "/memory.limit_in_bytes") << bytes;
    int64_t limit = 0;
    std::ifstream(folder_ + "/memory.limit_in_bytes") >> limit;
    is_there_ = limit == bytes;
  }
  ~MemoryGroup() { ::rmdir(folder_.c_str()); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_there() const { return is_there_; }
  // A command that enters the group and becomes `words`.
  Words inside(const Words& words) const {
    Words all = {"bash", "-c", "echo $$ > " + folder_ + "/cgroup.procs; exec \"$@\"",
                 "bash"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

 private:
  const std::string folder_;
  bool is_there_ = false;
};

TEST_F(Plan, ALimitOfTheControlGroupIsSeenBeforeTheKernelKills) {
  const MemoryGroup group(1 << 30);
  if (!group.is_there()) GTEST_SKIP() << "no control group can be made here";
  const Outcome outcome = run(
      0, group.inside({ZERO_LAUNCH, "train", "--preset=gpt2-124m", "--seq-len=32",
                       "--steps=1", "--data=" + path("data.txt"), "--out=" + path("a")}));
  EXPECT_EQ(outcome.rc, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("memory does not suffice"));
}

}  // namespace
}  // namespace zero::scenarios::plan_test

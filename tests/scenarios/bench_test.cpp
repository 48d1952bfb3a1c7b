// Somebody wants to know how far from its limits this machine is used. No number is
// judged.
#include "tests/scenarios/scenario.h"

namespace zero::scenarios::bench_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Bench : public Scenario {
 protected:
  Outcome bench(int ranks, const Words& words) { return run(ranks, words_of(words)); }

  // Of one array on standard output, and nothing else there.
  std::vector<json> rows(int ranks, Words words) {
    words.push_back("--json");
    words.push_back("--rounds=1");
    const Outcome outcome = bench(ranks, words);
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    const json rows = json::parse(outcome.out);
    for (const json& row : rows) {
      EXPECT_TRUE(row["name"].is_string() && row["limit"].is_string()) << row;
      EXPECT_TRUE(row["seconds"].is_number() && row["limit_seconds"].is_number()) << row;
      EXPECT_TRUE(row["ratio_to_limit"].is_number()) << row;
    }
    return rows;
  }

  static Words names(const std::vector<json>& rows) {
    Words names;
    for (const json& row : rows) names.push_back(row["name"]);
    return names;
  }

 private:
  Words words_of(const Words& words) const {
    Words all = {ZERO_LAUNCH, "bench"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
};

TEST_F(Bench, UpdatesOfOneUnitAndOfManyOnOneThreadAndOnAll) {
  const auto told = rows(0, {"adam", "--size=1MiB", "--threads=2"});
  EXPECT_EQ(told.size(), 2u * 2 * 5);
  EXPECT_EQ(told.front()["units"], 1);
  EXPECT_EQ(told.back()["units"], 24);
  EXPECT_EQ(told.back()["threads"], 2);
}

TEST_F(Bench, PartsOfLayersForwardAndBackward) {
  const auto told = rows(0, {"layer", "--size=1MiB"});
  ASSERT_EQ(told.size(), 2u * 8 * 2);
  EXPECT_EQ(told[0]["name"], "rms_norm forward");
  EXPECT_EQ(told[0]["elements"], 1 << 18);
  EXPECT_GT(told[0]["eager_seconds"], 0);
  EXPECT_EQ(told.back()["name"], "cross_entropy backward");
  EXPECT_EQ(told.back()["type"], "bf16");
}

TEST_F(Bench, StepsAloneAndOfTwoRanks) {
  const Words flags = {"step", "--preset=gpt2-tiny", "--steps=1"};
  const auto alone = rows(0, flags);
  EXPECT_EQ(alone[0]["name"], "engine");
  EXPECT_GT(alone[0]["tokens_per_s"], 0);
  EXPECT_GT(alone[0]["peak_mib"], 0);
  Words of_ranks = flags;
  of_ranks.push_back("--dtype=bf16");
  EXPECT_THAT(
      names(rows(2, of_ranks)),
      ElementsAre("engine", "engine", "silent, torch's AdamW", "silent, no optimizer"));
}

TEST_F(Bench, CollectivesOfTheRanksThatThereAre) {
  for (const auto& told : {rows(2, {"comm", "--size=1MiB"}),
                           rows(0, {"comm", "--size=1MiB", "--ranks=2"})}) {
    EXPECT_THAT(names(told),
                ElementsAre("all_gather", "reduce_scatter", "reduce_scatter"));
    EXPECT_EQ(told[0]["ranks"], 2);
  }
}

TEST_F(Bench, ACheckpointThatLeavesNothing) {
  write("out/.keep", "");
  const auto told = rows(2, {"checkpoint", "--size=1MiB", "--out=" + path("out")});
  EXPECT_THAT(names(told), ElementsAre("save", "load", "load from one rank's", "load",
                                       "load from one rank's"));
  EXPECT_EQ(told[1]["cache"], "cold");
  EXPECT_EQ(told[3]["cache"], "warm");
  EXPECT_THAT(run(0, {"ls", path("out")}).out, "");
}

TEST_F(Bench, SavesBesideStepsThatLeaveNothing) {
  write("out/.keep", "");
  const Outcome outcome =
      bench(2, {"saves", "--layers=1", "--dim=32", "--heads=2", "--seq-len=16",
                "--threads=0", "--rounds=1", "--json", "--out=" + path("out")});
  ASSERT_EQ(outcome.rc, 0) << outcome.err;
  const std::vector<json> told = json::parse(outcome.out);
  EXPECT_THAT(names(told), ElementsAre("steps wait", "beside steps"));
  EXPECT_GT(told[1]["cpu_seconds"], 0);
  EXPECT_THAT(run(0, {"ls", path("out")}).out, "");
}

TEST_F(Bench, ATableForPeople) {
  const Outcome outcome = bench(0, {"comm", "--size=1MiB", "--rounds=1"});
  EXPECT_THAT(outcome.out, HasSubstr("limit seconds  ratio to limit\n"));
}

}  // namespace
}  // namespace zero::scenarios::bench_test

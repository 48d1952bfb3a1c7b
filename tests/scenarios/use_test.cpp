// The verbs that use a checkpoint.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::use_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class UseOfACheckpoint : public Scenario {
 protected:
  UseOfACheckpoint() {
    // Which is for 1, 2, 4, ... ranks, and using a model for any number.
    const Words flags = {"--steps=8", "--save-every=4", "--lr=1e-2", "--deterministic"};
    EXPECT_EQ(run(2, train("a", flags)).rc, 0);
  }

  static std::string with_six_digits(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.6f", value);
    return text;
  }

  static std::string text_in(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  Outcome eval(int ranks, Words flags) {
    flags.push_back("--threads=1");
    const Outcome outcome = run(ranks, verb("eval", flags));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    return outcome;
  }

  Outcome generate(int ranks, Words flags) {
    flags.insert(flags.end(), {"--from", path("a"), "--threads=1", "--sample-tokens=20"});
    return run(ranks, verb("generate", flags));
  }
};

TEST_F(UseOfACheckpoint, EvalIsTheSameOnAnyNumberOfRanks) {
  const std::string alone = eval(0, {"--from", path("a")}).out;
  EXPECT_THAT(alone, ContainsRegex("eval step 8 .* 64 of 1250 samples"));
  EXPECT_EQ(eval(1, {"--from", path("a")}).out, alone);
  const std::string tokens =
      eval(2, {"--from", path("a"), "--per-token", "--to", path("t")}).out;
  EXPECT_EQ(tokens, alone);
  EXPECT_EQ(eval(3, {"--from", path("a"), "--per-token"}).out, text_in(path("t")));
}

// A second way to the loss: of all tokens that are told.
TEST_F(UseOfACheckpoint, EvalTellsEachTokenOfItsLoss) {
  const std::string told =
      eval(0, {"--from", path("a"), "--eval-samples=7", "--per-token"}).out;
  std::istringstream lines(told);
  int64_t samples = 0, count = 0;
  double sum = 0;
  for (std::string line; std::getline(lines, line); ++samples) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["sample"], samples);
    EXPECT_EQ(record["targets"].front(), record["tokens"][1]);
    for (const double log_prob : record["log_probs"]) sum += log_prob;
    count += std::ssize(record["log_probs"]);
  }
  EXPECT_EQ(samples, 7);
  const std::string loss = with_six_digits(-sum / static_cast<double>(count));
  EXPECT_THAT(eval(0, {"--from", path("a"), "--eval-samples=7"}).out, HasSubstr(loss));
}

TEST_F(UseOfACheckpoint, EvalIsWhatTrainingSaid) {
  const Words flags = {"--steps=8", "--lr=1e-2", "--deterministic", "--eval-data",
                       path("data.txt")};
  EXPECT_EQ(run(2, train("b", flags)).rc, 0);
  const double loss = last_of(metrics("b", "eval"))["loss"];
  EXPECT_THAT(eval(2, {"--from", path("a")}).out, HasSubstr(with_six_digits(loss)));
}

TEST_F(UseOfACheckpoint, EvalTakesWhatTheRunHasHeldOut) {
  EXPECT_EQ(run(2, train("b", {"--steps=2", "--eval-fraction=0.1"})).rc, 0);
  const double loss = last_of(metrics("b", "eval"))["loss"];
  const std::string own = eval(1, {"--from", path("b")}).out;
  EXPECT_THAT(own, AllOf(HasSubstr(with_six_digits(loss)), HasSubstr("of 125 samples")));
  const std::string all = eval(1, {"--from", path("b"), "--data", path("data.txt")}).out;
  EXPECT_THAT(all, HasSubstr("of 1250 samples"));
}

TEST_F(UseOfACheckpoint, EvalKnowsTheRunsOwnDataAgain) {
  Words words = train("c", {"--steps=1", "--eval-fraction=0.1"});
  std::ranges::replace(words, path("data.txt"), write("own.txt", std::string(900, 'x')));
  EXPECT_EQ(run(0, words).rc, 0);
  const std::string config =
      write("c.toml", "data = [\"" + path("data.txt") + "\"]\neval_fraction = 0.5\n");
  EXPECT_EQ(eval(0, {"--from", path("c"), "--config", config}).out,
            eval(0, {"--from", path("c")}).out);
  const Outcome longer = run(0, verb("eval", {"--from", path("c"), "--seq-len=8"}));
  EXPECT_EQ(longer.rc, 2);
  EXPECT_THAT(longer.err, HasSubstr("held out samples of 16 tokens"));
  write("own.txt", std::string(900, 'y'));
  const Outcome changed =
      run(0, verb("eval", {"--from", path("c"), "--threads=1", "--config", config}));
  EXPECT_EQ(changed.rc, 6);
  EXPECT_THAT(changed.err, HasSubstr("data have changed"));
}

TEST_F(UseOfACheckpoint, EvalOfAnEarlierStepAndOtherData) {
  const std::string other = write("other.txt", std::string(200, 'x'));
  const Outcome outcome =
      eval(0, {"--from", path("a/step_000000000004"), "--data", other});
  EXPECT_THAT(outcome.out, HasSubstr("eval step 4"));
  EXPECT_THAT(outcome.out, HasSubstr("12 of 12 samples"));
}

TEST_F(UseOfACheckpoint, GenerateIsTheSameOnAnyNumberOfRanks) {
  const std::string alone = generate(0, {"--sample=the "}).out;
  EXPECT_THAT(alone, ::testing::StartsWith("the "));
  EXPECT_EQ(generate(2, {"--sample=the "}).out, alone);
  EXPECT_NE(generate(0, {"--sample=the ", "--seed=5"}).out, alone);
}

TEST_F(UseOfACheckpoint, ItIsLeftAsItIs) {
  const Words before = checkpoints("a");
  const size_t num_records = metrics("a", "step").size();
  generate(0, {"--sample=the "});
  eval(0, {"--from", path("a")});
  EXPECT_EQ(checkpoints("a"), before);
  EXPECT_EQ(metrics("a", "step").size(), num_records);
  EXPECT_FALSE(has("a/run.lock"));
}

}  // namespace
}  // namespace zero::scenarios::use_test

// Texts that a model continues while it is trained.
#include <filesystem>
#include <sstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::sample_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Sampling : public Scenario {
 protected:
  static Words with(Words flags, const Words& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  Outcome go(int ranks, const std::string& out, const Words& flags) {
    return run(ranks, train(out, with(flags, {"--sample=the ", "--sample-every=2",
                                              "--sample-tokens=12"})));
  }

  std::vector<int64_t> sampled(const std::string& out) const {
    std::vector<int64_t> steps;
    for (const json& record : metrics(out, "sample")) steps.push_back(record["step"]);
    return steps;
  }
};

TEST_F(Sampling, IsToldAndChangesNoBit) {
  const Words flags = {"--steps=5", "--dropout=0.2", "--lr=1e-2"};
  EXPECT_EQ(run(2, train("plain", with(flags, {"--dump-state", path("plain_state")}))).rc,
            0);
  const Outcome outcome =
      go(2, "sampled", with(flags, {"--dump-state", path("sampled_state")}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  expect_same(read_state(path("plain_state")), read_state(path("sampled_state")));
  EXPECT_THAT(sampled("sampled"), ElementsAre(2, 4, 5)) << "the last one at the end";
  for (const json& record : metrics("sampled", "sample")) {
    EXPECT_EQ(record["prompt"], "the ");
    EXPECT_THAT(outcome.out,
                HasSubstr("sample at step " + record["step"].dump() + ":\n" + "the " +
                          record["text"].get<std::string>() + "\n"));
  }
}

TEST_F(Sampling, IsWhatGenerateMakesOfTheStep) {
  go(2, "a", {"--steps=4", "--save-every=2", "--lr=1e-2"});
  const Outcome alone =
      run(0, verb("generate", {"--from", path("a/step_000000000002"), "--threads=1",
                               "--sample=the ", "--sample-tokens=12"}));
  const json record = metrics("a", "sample").at(0);
  EXPECT_EQ(alone.out, "the " + record["text"].get<std::string>() + "\n");
}

TEST_F(Sampling, IsToldOnceWhereStepsAreDoneAgain) {
  go(0, "a", {"--steps=6", "--save-every=3"});
  std::filesystem::remove_all(path("a/step_000000000006"));
  const std::string text = last_of(metrics("a", "sample"))["text"];
  EXPECT_THAT(go(0, "a", {"--steps=6"}).out, HasSubstr("resumed step 3"));
  EXPECT_THAT(sampled("a"), ElementsAre(2, 4, 6));
  EXPECT_EQ(last_of(metrics("a", "sample"))["text"], text);
}

// One that takes seconds.
TEST_F(Sampling, IsLeftAtOnceAndDrawnWhereItGoesOn) {
  const Words flags = {"--steps=4", "--sample=the ", "--sample-every=2"};
  auto program = start(
      2, train("a", with(flags, {"--sample-tokens=1000000", "--delay=forward=100"})));
  ASSERT_TRUE(wait_for_step("a", 2));
  program->send(SIGUSR1);
  const Outcome outcome = program->wait(std::chrono::seconds(15));
  EXPECT_FALSE(outcome.is_late);
  EXPECT_EQ(outcome.rc, 75) << outcome.err;
  EXPECT_TRUE(sampled("a").empty());
  EXPECT_EQ(go(2, "a", {"--steps=4"}).rc, 0);
  EXPECT_THAT(sampled("a"), ElementsAre(2, 4));
}

TEST_F(Sampling, OfAFileIsTheSameOnAnyRanksAndGoesOn) {
  EXPECT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
  write("prompts.jsonl",
        "{\"prompt\": \"the \"}\n{\"prompt\": \"a longer one\"}\n{\"other\": 1}\n"
        "{\"prompt\": \"of\"}\n");
  const auto make = [&](int ranks, const std::string& to, const Words& more = {}) {
    return run(ranks, verb("generate",
                           with({"--from", path("a"), "--prompts", path("prompts.jsonl"),
                                 "--num-tokens=9", "--batch=2", "--num-samples=2",
                                 "--threads=1", "--to", path(to)},
                                more)));
  };
  const auto told = [&](const std::string& name) {
    std::vector<json> texts;
    std::istringstream lines(read_file(path(name)));
    for (std::string line; std::getline(lines, line);) {
      json text = json::parse(line);
      text.erase("tokens_per_second");
      texts.push_back(text);
    }
    return texts;
  };
  const Outcome outcome = make(0, "one");
  EXPECT_EQ(outcome.rc, 6) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("prompts.jsonl, line 3: the line has neither"));
  const std::vector<json> texts = told("one");
  ASSERT_EQ(texts.size(), 6u);
  EXPECT_EQ(texts[5]["line"], 4);
  EXPECT_EQ(texts[5]["sample"], 1);
  EXPECT_NE(texts[4]["tokens"], texts[5]["tokens"]);
  EXPECT_EQ(make(2, "two").rc, 6);
  EXPECT_EQ(told("two"), texts);
  const std::string some = read_file(path("two"));
  write("two", some.substr(0, some.size() - 9));
  EXPECT_THAT(
      make(2, "two").err,
      AllOf(
          HasSubstr("1 texts made, 6 of 6 are there; "),
          ContainsRegex(
              "prompt: [0-9]+ tokens, [0-9.]+ a second; [0-9]+ more, [0-9.]+ a second")));
  EXPECT_EQ(told("two"), texts);
  const Outcome refused = make(0, "two", {"--seed=5"});
  EXPECT_EQ(refused.rc, 2);
  EXPECT_THAT(refused.err, HasSubstr("other settings"));
  EXPECT_EQ(told("two"), texts);
}

// Of the bytes of a text, "a" is the likeliest behind "a" where it is trained on nothing
// else.
TEST_F(Sampling, LikelihoodsOfChoicesAreTheSameOnAnyRanks) {
  write("a.txt", std::string(2000, 'a'));
  EXPECT_EQ(run(0, train("a", {"--data", path("a.txt"), "--steps=80", "--lr=1e-2"})).rc,
            0);
  write("choices.jsonl",
        "{\"prompt\": \"aaa\", \"choices\": [\"b\", \"a\"], \"answer\": 1}\n"
        "{\"prompt\": \"aa\", \"choices\": [\"aaaa\", \"ab\", \"c\"], \"answer\": "
        "\"aaaa\"}\n"
        "{\"prompt\": \"a\", \"choices\": [\"b\", \"aa\"], \"answer\": 0}\n"
        // A blank at a prompt's end is the prompt's, where bytes are tokens.
        "{\"prompt\": \"a \", \"choices\": [\"a\", \"b\"]}\n"
        "{\"prompt\": \"a\", \"choices\": [\" \", \" a\"]}\n"
        // As long as the context, and a token that nothing follows.
        "{\"prompt\": \"" +
            std::string(16, 'a') + "\", \"choices\": [\"a\", \"b\"]}\n");
  for (const int ranks : {0, 2}) {
    const std::string to = "to" + std::to_string(ranks);
    const Outcome outcome =
        run(ranks, verb("eval", {"--from", path("a"), "--choices", path("choices.jsonl"),
                                 "--threads=1", "--micro-batch=2", "--to", path(to)}));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    EXPECT_THAT(outcome.out,
                HasSubstr("by length 66.67 % | 6 questions, 3 with an answer"));
  }
  EXPECT_EQ(read_file(path("to0")), read_file(path("to2")));
  std::vector<std::vector<double>> sums;
  std::istringstream lines(read_file(path("to0")));
  for (std::string line; std::getline(lines, line);)
    sums.push_back(json::parse(line)["log_likelihoods"]);
  ASSERT_EQ(sums.size(), 6u);
  EXPECT_NEAR(sums[3][0], sums[4][1] - sums[4][0], 1e-4);
}

}  // namespace
}  // namespace zero::scenarios::sample_test

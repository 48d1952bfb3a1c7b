// What is wrong with a command is told at once, by one rank, with the right code.
#include <algorithm>
#include <cstdint>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::usage_test {
namespace {

using ::testing::HasSubstr;

class Usage : public Scenario {
 protected:
  static int64_t count(const std::string& text, const std::string& part) {
    int64_t number = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++number;
    return number;
  }

  Words with(const std::string& before, const std::string& after) const {
    Words words = train("a", {"--steps=2"});
    *std::ranges::find(words, before) = after;
    return words;
  }
};

TEST_F(Usage, AllMistakesAtOnceByOneRank) {
  const Outcome outcome =
      run(2, train("a", {"--steps=0", "--lr=-1", "--seq-lenn=4", "--zero-stage=3"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("4 settings cannot be used"));
  EXPECT_THAT(outcome.err, HasSubstr("nearest: --seq-len"));
  EXPECT_EQ(count(outcome.err, "settings cannot be used"), 1);
}

TEST_F(Usage, AnIdBeyondTheVocabulary) {
  std::string tokens;
  for (int i = 0; i < 100; ++i) tokens += std::string{static_cast<char>(i % 7), 0};
  tokens[50] = 99;
  Words words = with(path("data.txt"), write("tokens.bin", tokens));
  words.push_back("--vocab=16");
  const Outcome outcome = run(2, words);
  EXPECT_EQ(outcome.rc, 6) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("99"));
}

TEST_F(Usage, AnnouncedRanksThatMpiDoesNotSee) {
  for (const std::string variable :
       {"OMPI_COMM_WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=4"}) {
    const Outcome outcome = run(0, train("a", {"--steps=2"}), {variable});
    EXPECT_EQ(outcome.rc, 3) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("announces 4 ranks"));
  }
}

TEST_F(Usage, AFolderThatCannotBeMade) {
  write("file", "");
  EXPECT_EQ(run(0, train("file/a", {"--steps=2"})).rc, 5);
}

TEST_F(Usage, AReaderThatWentAwayStopsNothing) {
  std::string command = "set -o pipefail; ";
  for (const std::string& word : train("a", {"--steps=20", "--log-every=1"}))
    command += "'" + word + "' ";
  const Outcome outcome =
      run(0, {"bash", "-c", command + "| head -1; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_EQ(steps("a").size(), 20u);
}

TEST_F(Usage, DataForEvaluationsAreTheSameOnAllRanks) {
  const auto of_rank = [&](const std::string& file, const std::string& text) {
    return train("a", {"--steps=2", "--eval-data", write(file, text)});
  };
  Words words = {"mpirun", "-n", "1"};
  for (const std::string& word : of_rank("first.txt", std::string(800, 'a')))
    words.push_back(word);
  words.insert(words.end(), {":", "-n", "1"});
  for (const std::string& word : of_rank("second.txt", std::string(900, 'a')))
    words.push_back(word);
  const Outcome outcome = run(0, words);
  EXPECT_EQ(outcome.rc, 6) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("are not rank 0's: 801 items there, 901 here"));
}

}  // namespace
}  // namespace zero::scenarios::usage_test

#include "launcher/inference/choices.h"

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "engine/comm/thread_ranks.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher::choices_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As a model whose loss of a target is that number, times 100 where it follows a 7.
std::vector<float> losses_of(const data::Batch& batch) {
  std::vector<float> losses(batch.targets.size());
  for (size_t i = 0; i < losses.size(); ++i)
    if (batch.targets[i] >= 0)
      losses[i] = static_cast<float>(batch.targets[i] * (batch.inputs[i] == 7 ? 100 : 1));
  return losses;
}

TEST(Choices, TokensCountFromTheirBeginOnOnAnyRanks) {
  const std::vector<CountedText> texts = {
      {{1, 2, 3}, 1}, {{1, 2, 3, 4, 5}, 3}, {{7, 2}, 1}, {{9, 7, 1}, 2}, {{5, 6}, 1}};
  for (const int num_ranks : {1, 2, 3}) {
    for (const int64_t rows : {1, 2, 9}) {
      auto ranks = make_thread_ranks(num_ranks);
      std::vector<std::vector<double>> found(num_ranks);
      {
        std::vector<std::jthread> threads;
        for (int r = 0; r < num_ranks; ++r)
          threads.emplace_back(
              [&, r] { found[r] = log_likelihoods(texts, rows, losses_of, *ranks[r]); });
      }
      for (const auto& each : found)
        EXPECT_THAT(each, ElementsAre(-5, -9, -200, -100, -6));
    }
  }
}

TEST(Choices, TheLikeliestIsRightBySumOrByLength) {
  const std::vector<Question> questions = {
      {.line = 1, .choices = {"a", "bbbb"}, .answer = 1},
      {.line = 2, .choices = {"a", "b", "c"}, .answer = 0},
      {.line = 3, .choices = {"a", "b"}},
      {.line = 4, .choices = {"a", "b"}, .answer = 0}};
  const Accuracy accuracy =
      accuracy_of(questions, {-2, -4, -1, -1, -5, -1, -9, std::nan(""), -1});
  EXPECT_EQ(accuracy.num_questions, 3);
  EXPECT_EQ(accuracy.num_by_sum, 1);
  EXPECT_EQ(accuracy.num_by_length, 2);
  EXPECT_EQ(accuracy.num_unknown, 1);
}

TEST(Choices, AnswersAreNumbersOrTexts) {
  TempFolder folder;
  const std::string path =
      folder.write("a.jsonl",
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"b\"], \"answer\": 1}\n\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"b\"], \"answer\": \"b\"}\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"b\"], \"answer\": null}\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"b\"], \"answer\": 2}\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"b\"], \"answer\": \"c\"}\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\"]}\n"
                   "{\"prompt\": \"p\", \"choices\": [\"a\", \"\"]}\n"
                   "{\"prompt\": \"p\", \"choices\": \"ab\"}\n"
                   "{\"choices\": [\"a\", \"b\"]}\n7\n");
  const std::vector<Question> read = read_questions(path);
  ASSERT_EQ(read.size(), 10u);
  EXPECT_EQ(read[0].answer, 1);
  EXPECT_EQ(read[1].line, 3);
  EXPECT_EQ(read[1].answer, 1);
  EXPECT_FALSE(read[2].answer);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(read[i].wrong, "");
  for (size_t i = 3; i < 5; ++i)
    EXPECT_THAT(read[i].wrong, HasSubstr("none of the choices"));
  for (size_t i = 5; i < 8; ++i) EXPECT_THAT(read[i].wrong, HasSubstr("two texts"));
  EXPECT_THAT(read[8].wrong, HasSubstr("\"prompt\""));
  EXPECT_THAT(read[9].wrong, HasSubstr("no object"));
  EXPECT_THROW(read_questions(folder.path("none")), Error);
}

}  // namespace
}  // namespace zero::launcher::choices_test

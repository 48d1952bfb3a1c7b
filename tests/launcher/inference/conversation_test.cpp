#include "launcher/inference/conversation.h"

#include <gmock/gmock.h>

namespace zero::launcher::conversation_test {
namespace {

using json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using Wish = Conversation::Wish;

TEST(Conversation, AsksWithAllThatWasSaid) {
  Conversation talk(/*has_template=*/true);
  EXPECT_EQ(talk.take(" 2 + 2? ").wish, Wish::kAnswer);
  talk.keep_answer("4");
  EXPECT_EQ(talk.take("why?").wish, Wish::kAnswer);
  EXPECT_EQ(talk.asked(), json::parse(R"({"messages": [
      {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"},
      {"role": "user", "content": "why?"}]})"));
  talk.forget_last();
  EXPECT_EQ(talk.asked()["messages"].size(), 2);
}

TEST(Conversation, BeginsAnewWithInstructionsOrWithout) {
  Conversation talk(true);
  talk.take("a");
  EXPECT_EQ(talk.take("/system be kind").wish, Wish::kTold);
  talk.take("b");
  const json instructed = json::parse(R"({"messages": [
      {"role": "system", "content": "be kind"}, {"role": "user", "content": "b"}]})");
  EXPECT_EQ(talk.asked(), instructed);
  EXPECT_EQ(talk.take("/reset").wish, Wish::kTold);
  talk.take("b");
  EXPECT_EQ(talk.asked(), instructed) << "instructions stay";
  EXPECT_EQ(talk.take("/system").wish, Wish::kTold);
  talk.take("c");
  EXPECT_EQ(talk.asked(),
            json::parse(R"({"messages": [{"role": "user", "content": "c"}]})"));
}

TEST(Conversation, ContinuesEachLineByItselfWithoutATemplate) {
  Conversation talk(/*has_template=*/false);
  talk.take("once ");
  talk.keep_answer("upon a time");
  EXPECT_EQ(talk.take(" twice ").wish, Wish::kAnswer);
  EXPECT_EQ(talk.asked(), " twice ") << "blanks count";
  EXPECT_EQ(talk.take("/system be kind").wish, Wish::kRefused);
}

TEST(Conversation, KnowsItsCommands) {
  Conversation talk(true);
  EXPECT_EQ(talk.take(" \t").wish, Wish::kNothing);
  EXPECT_EQ(talk.take("/exit").wish, Wish::kEnd);
  EXPECT_THAT(talk.take("/help").told, HasSubstr("/system TEXT"));
  EXPECT_THAT(talk.take("/ext").told, HasSubstr("\"/ext\" is no command"));
  EXPECT_EQ(talk.take("/reset all").wish, Wish::kRefused);
  EXPECT_EQ(talk.take("\xff").wish, Wish::kRefused);
  EXPECT_EQ(talk.take(" /usr/bin").wish, Wish::kAnswer) << "a blank makes it a text";
}

}  // namespace
}  // namespace zero::launcher::conversation_test

#include "launcher/settings/foreign_names.h"

#include <gmock/gmock.h>

#include "launcher/settings/command_line.h"
#include "launcher/settings/name_advice.h"

namespace zero::launcher::foreign_names_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string answer(const std::string& flag, const std::string& verb = "train") {
  return advice_for_flag(flag, find_verb(verb));
}

TEST(ForeignNames, InEitherSpelling) {
  EXPECT_THAT(foreign_name_advice("learning-rate"), ElementsAre("here: @lr"));
  EXPECT_THAT(foreign_name_advice("learning_rate"), ElementsAre("here: @lr"));
  EXPECT_THAT(foreign_name_advice("lr"), IsEmpty());
}

TEST(ForeignNames, MayBeMisspelt) {
  EXPECT_EQ(nearly_foreign_name_advice("lerning-rate"),
            "perhaps learning_rate; here: @lr");
  EXPECT_EQ(nearly_foreign_name_advice("xyzzy"), "");
}

TEST(ForeignNames, OfVerbs) {
  EXPECT_EQ(foreign_verb_advice("finetune"),
            "here: train --init-from DIR --data PATH...");
  EXPECT_EQ(foreign_verb_advice("train"), "");
}

TEST(NameAdvice, NamesWhatTheVerbTakes) {
  EXPECT_EQ(answer("output", "train"), "; here: --out");
  EXPECT_EQ(answer("output", "export"), "; here: --to");
  EXPECT_EQ(answer("batch-size", "eval"),
            "; here: --micro-batch, the samples of one kernel pass");
  EXPECT_EQ(answer("learning-rate", "eval"), "; here: --lr, which eval does not use");
}

TEST(NameAdvice, CallsASettingAsTheVerbDoes) {
  EXPECT_EQ(answer("max-tokens", "generate"), "; here: --num-tokens");
  EXPECT_EQ(answer("max-tokens"), "; here: --sample-tokens (generate: --num-tokens)");
  EXPECT_EQ(answer("temp", "generate"), "; here: --temperature");
}

TEST(NameAdvice, OffersFlagsOfTheVerbAlone) {
  EXPECT_EQ(answer("norm", "inspect"), "; nearest: --norms");
  EXPECT_EQ(answer("norm", "verify"), "");
  EXPECT_EQ(answer("layer"), "; nearest: --layers");
  EXPECT_EQ(answer("promt", "generate"), "; nearest: --prompt");
}

TEST(NameAdvice, OfAFileNamesSettingsAlone) {
  EXPECT_EQ(advice_for("output", key_of), "; here: out");
  EXPECT_EQ(advice_for("tensors", key_of), "") << "--fqn is no setting";
  EXPECT_EQ(advice_for("seq_lenn", key_of), "; nearest: seq_len");
}

TEST(NameAdvice, AWordWithADashIsNoFolder) {
  const CommandLine line = read_command_line({"-m", "run", "-p", "hello"}, "generate");
  EXPECT_EQ(line.from, "");
  ASSERT_EQ(line.problems.size(), 2u) << "what stands behind each is its value";
  EXPECT_THAT(line.problems[0].text, HasSubstr("unknown flag -m; here: --from DIR"));
  EXPECT_THAT(line.problems[1].text, HasSubstr("unknown flag -p; here: --prompt"));
}

// A slip of a short name leaves most of it.
TEST(NameAdvice, OffersNothingFromAfar) {
  for (const char* name : {"bias", "temp", "stop", "open"})
    EXPECT_THAT(answer(name), Not(HasSubstr("nearest"))) << name;
}

// A name that is ours is never answered as another's, or nobody would see the answer.
TEST(NameAdvice, NoForeignNameIsASettingThatTrainTakes) {
  for (const Setting& setting : setting_table())
    EXPECT_THAT(foreign_name_advice(setting.key), IsEmpty()) << setting.key;
}

}  // namespace
}  // namespace zero::launcher::foreign_names_test

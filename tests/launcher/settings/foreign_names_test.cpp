#include "launcher/settings/foreign_names.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "launcher/settings/command_line.h"
#include "launcher/settings/name_advice.h"
#include "launcher/settings/names.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher::foreign_names_test {
namespace {

using ::testing::AllOf;
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

TEST(ForeignNames, InKeysOfOtherFiles) {
  EXPECT_THAT(foreign_name_advice("optimizer.params.learning_rate"),
              ElementsAre("here: @lr"));
  EXPECT_THAT(foreign_name_advice("AUTO_SETUP_FSDP"), Not(IsEmpty()));
}

// What docs/coming-from.md has on the left, in backticks: flags, keys and words of ours.
TEST(ForeignNames, AreThoseOfThePage) {
  std::ifstream page(ZERO_SOURCE_DIR "/docs/coming-from.md");
  const std::regex name("`(?:--)?([A-Za-z0-9_.-]+)[^`]*`");
  int num_names = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) continue;
    const std::string left = line.substr(0, line.find('|', 1));
    for (std::sregex_iterator i(left.begin(), left.end(), name), end; i != end; ++i) {
      const std::string word = (*i)[1];
      ++num_names;
      std::string flag = word.substr(word.rfind('.') + 1);
      std::ranges::replace(flag, '_', '-');
      const bool is_ours =
          find_setting("--" + (flag.starts_with("no-") ? flag.substr(3) : flag), flag_of);
      const bool is_a_value = !nearest_value(word, {"adamw", "linear"}).empty();
      EXPECT_TRUE(is_ours || is_a_value || !foreign_name_advice(word).empty()) << word;
    }
  }
  EXPECT_GT(num_names, 90);
}

TEST(ForeignNames, OfABatchMeanAPassOrAStep) {
  EXPECT_THAT(answer("batch-size"),
              AllOf(HasSubstr("--micro-batch"), HasSubstr("--global-batch")));
  EXPECT_THAT(answer("batch-size", "generate"), HasSubstr("--batch,"));
  EXPECT_THAT(answer("batch-size", "eval"), Not(HasSubstr("--global-batch")));
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

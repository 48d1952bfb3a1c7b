#include "launcher/settings/help.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "launcher/settings/values.h"

namespace zero::launcher::help_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> lines_of(const std::string& page) {
  std::istringstream stream(page);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Help, EveryPageFitsATerminal) {
  EXPECT_THAT(lines_of(overview()), Each(SizeIs(Le(kPageWidth))));
  for (const Verb& verb : verb_table())
    EXPECT_THAT(lines_of(page_of(verb)), Each(SizeIs(Le(kPageWidth)))) << verb.name;
}

TEST(Help, APageHasEveryWordOfASetting) {
  std::string page = page_of(find_verb("train"));
  const auto in_one_line = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    const auto same =
        std::ranges::unique(text, [](char a, char b) { return a == ' ' && b == ' '; });
    text.erase(same.begin(), same.end());
    return text;
  };
  page = in_one_line(page);
  for (const Setting& setting : setting_table())
    EXPECT_THAT(page, HasSubstr(flag_of(setting) + " ")) << setting.key;
  for (const Setting& setting : setting_table())
    EXPECT_THAT(page, HasSubstr(in_one_line(setting.help)));
}

TEST(Help, ALongLineGoesOnInItsColumn) {
  EXPECT_EQ(help_line("--lr X", "rate"), "  --lr X                    rate\n");
  const std::string words = "word word word word word word word word word word";
  EXPECT_EQ(help_line("--lr X", words + " word word"),
            "  --lr X                    " + words + "\n" + std::string(28, ' ') +
                "word word\n");
  EXPECT_EQ(help_line("--a-flag-of-many-letters X", "rate"),
            "  --a-flag-of-many-letters X\n" + std::string(28, ' ') + "rate\n");
}

TEST(Help, AVerbsOwnNamesStandForTheOthers) {
  const std::string page = page_of(find_verb("generate"));
  EXPECT_THAT(page,
              HasSubstr("  --num-tokens N            tokens that are added [200]\n"));
  EXPECT_THAT(page, Not(HasSubstr("--sample-tokens")));
}

}  // namespace
}  // namespace zero::launcher::help_test

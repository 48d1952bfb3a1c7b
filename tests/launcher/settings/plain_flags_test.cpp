#include "launcher/settings/plain_flags.h"

#include <gmock/gmock.h>

#include "launcher/settings/command_line.h"

namespace zero::launcher::plain_flags_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> problems(const std::string& verb,
                                  const std::vector<std::string>& words) {
  const CommandLine line = read_command_line(words, verb);
  std::vector<std::string> all;
  for (const Problem& problem : line.problems) all.push_back(problem.text);
  for (const Problem& problem : check_flags(line, verb)) all.push_back(problem.text);
  return all;
}

TEST(PlainFlags, OneIsQuietOrVerbose) {
  EXPECT_THAT(problems("train", {"--quiet"}), IsEmpty());
  EXPECT_THAT(problems("train", {"-q", "-v"}),
              ElementsAre("--quiet and --verbose exclude each other"));
}

TEST(PlainFlags, TwoFoldersAreCompared) {
  EXPECT_THAT(problems("diff", {"a", "b"}), IsEmpty());
  EXPECT_THAT(problems("diff", {"a"}), ElementsAre("1 of 2 folders are given"));
}

TEST(PlainFlags, NamesAreNotEmpty) {
  EXPECT_THAT(problems("inspect", {"a", "--fqn", "w", ""}),
              ElementsAre("--fqn has no value; allowed: names of tensors, * and ? in "
                          "them"));
}

}  // namespace
}  // namespace zero::launcher::plain_flags_test

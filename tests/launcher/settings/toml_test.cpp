#include "launcher/settings/toml.h"

#include <gmock/gmock.h>

namespace zero::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Type = RawValue::Type;

RawValue value_of(const std::string& text) {
  const TomlFile file = parse_toml("key = " + text, "f");
  EXPECT_TRUE(file.problems.empty()) << text << ": " << file.problems[0].text;
  return file.entries.empty() ? RawValue() : file.entries[0].value;
}

std::string problem_of(const std::string& text) {
  const TomlFile file = parse_toml(text, "f");
  return file.problems.empty() ? ""
                               : file.problems[0].text + " at " + file.problems[0].origin;
}

TEST(Toml, Scalars) {
  EXPECT_EQ(value_of("12").type, Type::kNumber);
  EXPECT_EQ(value_of("-1_000.5e-3").words[0], "-1_000.5e-3");
  EXPECT_EQ(value_of("true").type, Type::kBoolean);
  EXPECT_EQ(value_of("\"a # b\"  # comment").words[0], "a # b");
  EXPECT_EQ(value_of("'c:\\n'").words[0], "c:\\n");
  EXPECT_EQ(value_of("\"\\u00e4\\t\\\"\\\\\\U0001F600\"").words[0],
            "\xc3\xa4\t\"\\\xf0\x9f\x98\x80");
  EXPECT_EQ(value_of("\"\"").words[0], "");
}

TEST(Toml, ArraysOverLines) {
  const RawValue value = value_of("[ 'a', # first\n\n  \"b\",\n]");
  EXPECT_TRUE(value.is_array);
  EXPECT_EQ(value.type, Type::kString);
  EXPECT_THAT(value.words, ElementsAre("a", "b"));
  EXPECT_TRUE(value_of("[]").words.empty());
  EXPECT_EQ(value_of("[1, 'a']").type, Type::kMixed);
}

TEST(Toml, LinesAreCounted) {
  const TomlFile file =
      parse_toml("# one\n\na = 1\r\nb = [\n 1,\n 2 ]\nc = 3", "run.toml");
  ASSERT_EQ(file.entries.size(), 3u);
  EXPECT_EQ(file.entries[0].value.origin, "run.toml line 3");
  EXPECT_EQ(file.entries[1].value.origin, "run.toml line 4");
  EXPECT_EQ(file.entries[2].value.origin, "run.toml line 7");
}

TEST(Toml, ProblemsNameTheirLineAndReadingGoesOn) {
  const TomlFile file = parse_toml("a = 1\nnonsense\nb = fp32\nc = 3\n", "f");
  ASSERT_EQ(file.problems.size(), 2u);
  EXPECT_EQ(file.problems[0].origin, "f line 2");
  EXPECT_THAT(file.problems[1].text, HasSubstr("quotes: \"fp32\""));
  EXPECT_EQ(file.entries.size(), 2u);
}

TEST(Toml, EveryProblemIsNamed) {
  EXPECT_THAT(problem_of("a = \"x"), HasSubstr("ends inside a value"));
  EXPECT_THAT(problem_of("a = \"x\nb = 1"),
              HasSubstr("closing quote is missing at f line 1"));
  EXPECT_THAT(problem_of("a = \"\\q\""), HasSubstr("\\q is no escape"));
  EXPECT_THAT(problem_of("a = \"\\ud800\""), HasSubstr("names no character"));
  EXPECT_THAT(problem_of("a = \"\"\"x\"\"\""), HasSubstr("several lines"));
  EXPECT_THAT(problem_of("a = [1 2]"), HasSubstr("comma or ]"));
  EXPECT_THAT(problem_of("a = [1, 2"), HasSubstr("comma or ]"));
  EXPECT_THAT(problem_of("a = 1 2"), HasSubstr("'2' stands behind the value of a"));
  EXPECT_THAT(problem_of("a ="), HasSubstr("no value"));
  EXPECT_THAT(problem_of("= 1"), HasSubstr("not of the form key = value"));
  EXPECT_THAT(problem_of("[table]"), HasSubstr("no tables"));
  EXPECT_THAT(problem_of(std::string("a = 1\n\0b = 2", 12)), HasSubstr("f line 2"));
}

}  // namespace
}  // namespace zero::launcher

#include "launcher/settings/toml.h"

#include <gmock/gmock.h>

namespace zero::launcher::toml_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  EXPECT_EQ(value_of("-1_000.5e-3").words[0], "-1.0005");
  EXPECT_EQ(value_of("0.1").words[0], "0.1");
  EXPECT_EQ(value_of("3e-4").words[0], "0.0003");
  EXPECT_EQ(value_of("0x10").words[0], "16");
  EXPECT_EQ(value_of("true").type, Type::kBoolean);
  EXPECT_EQ(value_of("\"a # b\"  # comment").words[0], "a # b");
  EXPECT_EQ(value_of("'c:\\n'").words[0], "c:\\n");
  EXPECT_EQ(value_of("\"\\u00e4\\t\\\"\\\\\\U0001F600\"").words[0],
            "\xc3\xa4\t\"\\\xf0\x9f\x98\x80");
  EXPECT_EQ(value_of("\"\"").words[0], "");
  EXPECT_EQ(value_of("\"\"\"\na\nb\"\"\"").words[0], "a\nb");
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

TEST(Toml, TheFirstMistakeInTheSyntaxIsNamedWithItsLine) {
  const TomlFile file = parse_toml("a = 1\nnonsense\nb = fp32\nc = 3\n", "f");
  ASSERT_EQ(file.problems.size(), 1u);
  EXPECT_EQ(file.problems[0].origin, "f line 2");
  EXPECT_THAT(file.problems[0].text, HasSubstr("'nonsense' is not TOML"));
  EXPECT_TRUE(file.entries.empty());

  EXPECT_THAT(problem_of("dtype = fp32"), HasSubstr("a text stands in quotes"));
  EXPECT_THAT(problem_of("a = \"x"), HasSubstr("end-of-file"));
  EXPECT_THAT(problem_of("a = \"x\nb = 1"), HasSubstr("a quotation mark is missing"));
  EXPECT_THAT(problem_of("a = \"\\q\""), HasSubstr("unknown escape sequence"));
  EXPECT_THAT(problem_of("a = [1 2]"), HasSubstr("comma"));
  EXPECT_THAT(problem_of("a = 1 2"), HasSubstr("'a = 1 2' is not TOML"));
  EXPECT_THAT(problem_of("a = 1\na = 2"), HasSubstr("cannot redefine"));
  EXPECT_THAT(problem_of(std::string("a = 1\n\0b = 2", 12)), HasSubstr("f line 2"));
  EXPECT_THAT(problem_of("a = " + std::string(100000, '[')), HasSubstr("depth"));
}

TEST(Toml, BracketsWithoutANameEndNothing) {
  for (const char* text : {"[# comment", "[[# comment", "[=", "[ ]", "[", "[["})
    EXPECT_THAT(problem_of(text), HasSubstr("not TOML")) << text;
}

TEST(Toml, AKeyWithAHundredThousandPartsIsRefused) {
  std::string key = "a";
  for (int part = 1; part < 100000; ++part) key += ".a";
  for (const std::string& text : {key + " = 1", "[" + key + "]", "b = {" + key + " = 1}"})
    EXPECT_THAT(problem_of(text), HasSubstr("a key has over 1000 parts"));
  EXPECT_EQ(value_of("'" + std::string(900, '.') + "'").words[0].size(), 900u);
}

TEST(Toml, EveryValueThatNoSettingHasIsNamed) {
  const TomlFile file = parse_toml(
      "lr = 1\nwhen = 2026-01-01\n[optimizer]\nlr = 1\n[[more]]\n[a.b]\nc = 1\n", "f");
  EXPECT_EQ(file.entries.size(), 1u);
  ASSERT_EQ(file.problems.size(), 4u);
  EXPECT_THAT(file.problems[0].text, HasSubstr("when is a date"));
  EXPECT_THAT(
      file.problems[1].text,
      HasSubstr("optimizer is a table; every key stands by itself here: lr = ..."));
  EXPECT_EQ(file.problems[1].origin, "f line 3");
  EXPECT_THAT(file.problems[2].text,
              HasSubstr("more holds an array or a table in an array"));
  EXPECT_THAT(file.problems[3].text, HasSubstr("a is a table"));
}

}  // namespace
}  // namespace zero::launcher::toml_test

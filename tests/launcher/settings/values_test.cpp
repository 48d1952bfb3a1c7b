#include "launcher/settings/values.h"

#include <gmock/gmock.h>

namespace zero::launcher::values_test {
namespace {

using ::testing::ElementsAre;

TEST(Values, Integers) {
  EXPECT_EQ(parse_integer("1_000"), 1000);
  EXPECT_EQ(parse_integer("+3"), 3);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  for (const char* text :
       {"", "_1", "1_", "1__0", "1.0", "9223372036854775808", " 1", "-", "+-1"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

TEST(Values, Numbers) {
  EXPECT_EQ(parse_number("3e-4"), 3e-4);
  EXPECT_EQ(parse_number(".5"), 0.5);
  for (const char* text : {"1e400", "nan", "-inf", "1,5", "0x1p3", ""})
    EXPECT_FALSE(parse_number(text)) << text;
}

TEST(Values, Durations) {
  EXPECT_EQ(parse_duration("23:30:01"), 84601);
  EXPECT_EQ(format_duration(84601), "23:30:01");
  EXPECT_EQ(format_duration(*parse_duration("120:00:00")), "120:00:00");
  EXPECT_EQ(parse_duration("90"), 5400) << "minutes, as Slurm counts them";
  EXPECT_EQ(parse_duration("1:30"), 90);
  EXPECT_EQ(parse_duration("2-12"), 60 * 3600);
  EXPECT_EQ(parse_duration("1-00:30"), 86400 + 1800);
  EXPECT_EQ(parse_duration("1-2:03:04"), 86400 + 7384);
  EXPECT_EQ(parse_duration(format_duration(*parse_duration("4166-15:59:59"))),
            100000 * 3600 - 1);
  for (const char* text : {"", "-1", "1-", "1:60", "1:60:0", "1:0:-1", "a:b:c", "1-24",
                           "1:2:3:4", "1-1-1", "100000:0:0", "4166-16"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Values, Spans) {
  EXPECT_EQ(parse_span("90s"), 90);
  EXPECT_EQ(parse_span("10min"), 600);
  EXPECT_EQ(parse_span("1h30min"), 5400);
  EXPECT_EQ(parse_span("2d"), 172800);
  for (const char* text : {"", "10", "0s", "min", "10minutes", "-1s", "1h 30m", "1.5h"})
    EXPECT_FALSE(parse_span(text)) << text;
  EXPECT_FALSE(parse_span("41666d16h"));
  EXPECT_EQ(parse_span("41666d15h59min59s"), 3599999999);
  for (const int64_t seconds : std::initializer_list<int64_t>{1, 59, 60, 600, 3599, 3600,
                                                              5400, 90061, 3599999999})
    EXPECT_EQ(parse_span(format_span(seconds)), seconds);
  EXPECT_EQ(format_span(600), "10min");
}

TEST(Values, Recomputation) {
  EXPECT_EQ(parse_recompute("unit"), 1);
  EXPECT_EQ(parse_recompute("none"), 0);
  EXPECT_EQ(parse_recompute("every:1"), 1);
  EXPECT_EQ(parse_recompute("every:12"), 12);
  for (const char* text : {"", "every", "every:", "every:0", "every:-2", "every:x",
                           "every:2:3", "every: 2", "Every:2", "every:1048577", "2"})
    EXPECT_FALSE(parse_recompute(text)) << text;
}

TEST(Values, Lists) {
  EXPECT_THAT(split(" a, b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(alternatives({"a"}), "a");
  EXPECT_EQ(alternatives({"a", "b", "c"}), "a, b or c");
}

TEST(Values, Utf8) {
  for (const char* text : {"", "abc", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(is_utf8(text));
  for (const char* text : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(Values, Sizes) {
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("1000"), 1000);
  EXPECT_EQ(parse_size("16GiB"), int64_t{16} << 30);
  EXPECT_EQ(parse_size("1.5G"), int64_t{3} << 29);
  EXPECT_EQ(parse_size("2TB"), 2'000'000'000'000);
  EXPECT_EQ(parse_size("3GB"), 3'000'000'000);
  EXPECT_EQ(parse_size("4MB"), 4'000'000);
  EXPECT_EQ(parse_size("5KB"), 5'000);
  EXPECT_EQ(parse_size("6T"), int64_t{6} << 40);
  EXPECT_EQ(parse_size("7M"), int64_t{7} << 20);
  EXPECT_EQ(parse_size("8K"), int64_t{8} << 10);
  EXPECT_EQ(parse_size("9TiB"), int64_t{9} << 40);
  EXPECT_EQ(parse_size("10MiB"), int64_t{10} << 20);
  EXPECT_EQ(parse_size("11KiB"), int64_t{11} << 10);
  EXPECT_EQ(parse_size("12B"), 12);
  for (const char* bad :
       {"", "GiB", "-1GiB", "1 GiB", "1gib", "1e3G", "1..5G", "99999999T", "nan", "0x10"})
    EXPECT_FALSE(parse_size(bad)) << bad;
  for (const int64_t bytes : {int64_t{0}, int64_t{1000}, int64_t{3} << 20,
                              int64_t{5} << 40, (int64_t{1} << 30) + 1})
    EXPECT_EQ(parse_told_size(format_size(bytes)), bytes);
}

TEST(Wrapped, BreaksAtTheLastBlankThatFits) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("  one two", 6), "  one\n  two") << "below where it begins";
  EXPECT_EQ(wrapped("one two", 6, 4), "one\n    two");
  EXPECT_EQ(wrapped("incomprehensible one", 8), "incomprehensible\none");
  EXPECT_EQ(wrapped("incomprehensible", 8), "incomprehensible");
}

TEST(Wrapped, KeepsLinesAndTheirEnds) {
  EXPECT_EQ(wrapped("a  b\n\n c\n", 8), "a  b\n\n c\n");
  EXPECT_EQ(wrapped("", 8), "");
}

}  // namespace
}  // namespace zero::launcher::values_test

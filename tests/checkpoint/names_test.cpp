#include "base/text.h"
#include "checkpoint/error.h"
#include "support.h"

namespace zero::checkpoint::testing::names_test {
namespace {

using namespace std::string_literals;

TEST(NamesTest, TakesWhatModelsUse) {
  for (const auto& name : {"blocks.3.attn.qkv.weight"s, "..."s, ".hidden"s, "größe"s,
                           "重み"s, "😀"s, "a b%b"s, std::string(1024, 'x')}) {
    EXPECT_NO_THROW(check_name(name)) << name;
  }
}

TEST(NamesTest, RefusesWhatCannotBeStored) {
  for (const auto& name :
       {""s, "."s, ".."s, "../x"s, "/abs"s, "a/b"s, "a\0b"s, "a\nb"s, "\x1b[31m"s,
        "\x7f"s, "\xc2\x85"s, "\xff"s, "\xc0\x80"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s,
        "\xe2\x82"s, "\xe0\x80\xaf"s, "\xf0\x80\x80\xaf"s, std::string(1025, 'x')}) {
    EXPECT_THROW(check_name(name), CheckpointError) << printable(name);
  }
}

TEST(NamesTest, ErrorsAreSafeToPrint) {
  const std::string text = error_of([] { check_name("evil\x1b[2J\xff", "m.json"); });
  EXPECT_EQ(text, "m.json: evil\\x1b[2J\\xff: the name has a control character");
}

TEST(NamesTest, HalfACharacterMayBeTheBeginningOfOne) {
  for (const char* half : {"\xc3", "\xe2\x82", "\xf0\x9f\x98"})
    EXPECT_TRUE(first_character(half).is_cut) << printable(half);
  for (const char* none : {"\xe2x", "\xff", "\x82", "a"})
    EXPECT_FALSE(first_character(none).is_cut) << printable(none);
}

TEST(NamesTest, BytesAreShownAsTheyAre) {
  EXPECT_EQ(printable("\xc3(\x85\x01"), "\\xc3(\\x85\\x01");
}

TEST(NamesTest, LongTextsAreCut) {
  const std::string cut = printable(std::string(1 << 20, 'x'));
  EXPECT_LT(cut.size(), 4096u);
  EXPECT_TRUE(cut.ends_with("x..."));
}

}  // namespace
}  // namespace zero::checkpoint::testing::names_test

#include "launcher/data/text_kind.h"

#include <filesystem>

#include "tests/launcher/data/data_files.h"

namespace zero::data::text_kind_test {
namespace {

std::string kind(const std::string& head) {
  const auto found = kind_of_text(head);
  return found ? found->name : "";
}

std::string cure(const std::string& head) { return kind_of_text(head).value().cure; }

// So many times.
std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TextKind, JsonLinesAreObjectsAlone) {
  const std::string line = "{\"id\": 3, \"text\": \"It was, {they} say.\"}\n";
  EXPECT_EQ(kind(line + line), "JSONL");
  EXPECT_EQ(kind(line + "\n" + line + "{\"text\": \"cut of"), "JSONL");
  EXPECT_EQ(kind(line), "") << "one may be anything";
  EXPECT_EQ(kind(line + line + "And prose.\n"), "");
  EXPECT_EQ(kind("{\n  \"a\": 1,\n  \"b\": 2\n}\n"), "") << "a document";
  EXPECT_EQ(kind("{ int a = 1; }\n{ int b = 2; }\n"), "");
}

TEST(TextKind, TheCureNamesTheUsualKey) {
  EXPECT_EQ(cure(times(2, "{\"id\":1,\"content\":\"x\"}\n")),
            "jq -r .content FILE > TEXT, or --tokenizer DIR");
  EXPECT_EQ(cure(times(2, "{\"a\":1}\n")), "jq -r .KEY FILE > TEXT, or --tokenizer DIR");
}

TEST(TextKind, TablesHaveRecordsOfAsManyFields) {
  EXPECT_EQ(kind("id,text\n" + times(4, "1,hello\n")), "CSV");
  EXPECT_EQ(kind("id,text\n" + times(3, "1,hello\n")), "") << "too few to tell";
  EXPECT_EQ(kind("id,text\r\n" + times(4, "1,\"a, \"\"b\"\",c\r\nand, d\"\r\n")), "CSV");
  EXPECT_EQ(kind("a;b;c\n" + times(5, "1;2;3\n")), "CSV");
  EXPECT_EQ(kind("word\tcount\n" + times(5, "the\t7\n")), "TSV");
  EXPECT_EQ(kind("a,b,c\n" + times(4, "1,2,3\n") + "4,,\n"), "CSV") << "most are alike";
  EXPECT_EQ(kind("a,b,c\n" + times(4, "1,2,3\n1,2\n")), "");
}

TEST(TextKind, APageOfTheWeb) {
  EXPECT_EQ(kind("<!DOCTYPE html>\n<p>Hello"), "HTML");
  EXPECT_EQ(kind("\n  <html lang=\"en\">"), "HTML");
  EXPECT_EQ(kind("<?xml version=\"1.0\"?>\n<!-- old -->\n<!doctype HTML>"), "HTML");
  EXPECT_EQ(kind("<html"), "HTML");
  EXPECT_EQ(kind("A page begins with <html> and ends.\n"), "");
}

TEST(TextKind, AByteOrderMarkHidesNothing) {
  EXPECT_EQ(kind("\xef\xbb\xbf" + times(2, "{\"text\": \"a\"}\n")), "JSONL");
  EXPECT_EQ(kind("\xef\xbb\xbf<html>"), "HTML");
  EXPECT_EQ(kind("\xef\xbb\xbf"), "");
}

TEST(TextKind, BytesThatAreNotUtf8) {
  EXPECT_EQ(kind("Gr\xfc\xdf Gott\n"), "Latin-1, as it is not UTF-8");
  EXPECT_EQ(kind("Gr\xc3\xbc\xc3\x9f Gott\n"), "");
  EXPECT_EQ(kind("Gr\xc3\xbc\xc3"), "") << "cut in the middle of a letter";
  EXPECT_EQ(kind(""), "");
}

TEST(TextKind, WhatPeopleWriteIsNone) {
  EXPECT_EQ(kind(times(9, "Roses are red,\nviolets, too, are blue,\n")), "");
  EXPECT_EQ(kind(times(9, "Well, he said, it cost 1,000 pounds.\n")), "");
  EXPECT_EQ(kind(times(9, "int a = f(x, y);\n\tg(a, b);\n")), "");
  EXPECT_EQ(kind(times(9, "  {0x12, 0x34},\n")), "");
  EXPECT_EQ(kind(times(9, "all:\n\tmake -C a\n")), "");
  EXPECT_EQ(kind(times(9, "key = [\"a\", \"b\"]\n\n")), "");
  EXPECT_EQ(kind(times(9, "| a | b |\n|---|---|\n")), "");
  EXPECT_EQ(kind(times(9, "a = 1;\nb = 2;\n")), "");
  EXPECT_EQ(kind(times(9, ";;; comments of Lisp\n")), "");
}

class OddTexts : public DataFiles {};

TEST_F(OddTexts, AreToldOnceAKindByTheirFirstFile) {
  write("c/1.txt", "prose\n");
  write("c/2", "<html>");
  write("c/3", "<HTML>");
  write("c/4", "caf\xe9\n");
  const auto lines = TokenSource({path("c")}).warnings();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0],
              ::testing::StartsWith(path("c/2") + " (and 1 more) looks like HTML"));
  EXPECT_THAT(lines[1], ::testing::StartsWith(path("c/4") + " looks like Latin-1"));
  EXPECT_THAT(TokenSource({write("ids.bin", "\xff\xfe\xff\xfe")}).warnings(),
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace zero::data::text_kind_test

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/run/metrics_history.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::lines_from_end_test {
namespace {

using ::testing::ElementsAre;

constexpr size_t kBlockBytes = 64 << 10;

// The last one first; "..." behind a torn one.
std::vector<std::string> lines_of(const std::string& text) {
  const TempFolder folder;
  const int file = ::open(folder.write("log", text).c_str(), O_RDONLY);
  LinesFromEnd lines(file, static_cast<int64_t>(text.size()));
  std::vector<std::string> all;
  while (const auto line = lines.next()) {
    EXPECT_EQ(text.substr(static_cast<size_t>(line->begin), line->text.size()),
              line->text);
    all.push_back(line->text + (line->is_torn ? "..." : ""));
  }
  ::close(file);
  return all;
}

TEST(LinesFromEnd, ComeLastOneFirst) {
  EXPECT_THAT(lines_of("a\n\nb\n"), ElementsAre("b", "", "a"));
  EXPECT_THAT(lines_of("a\nb"), ElementsAre("b...", "a"));
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of(""), ElementsAre());
}

TEST(LinesFromEnd, ALineMayEndWhereABlockBegins) {
  for (size_t size = kBlockBytes - 3; size <= kBlockBytes + 1; ++size) {
    const std::string wide(size, 'x');
    EXPECT_THAT(lines_of("a\nb\n" + wide + "\n"), ElementsAre(wide, "b", "a")) << size;
    EXPECT_THAT(lines_of("a\nb\n" + wide), ElementsAre(wide + "...", "b", "a")) << size;
  }
}

TEST(LinesFromEnd, ALineMayBeWiderThanTwoBlocks) {
  const std::string wide(3 * kBlockBytes, 'x');
  EXPECT_THAT(lines_of(wide + "\n" + wide + "\n"), ElementsAre(wide, wide));
}

TEST(LinesFromEnd, WhatCannotBeReadIsNotTheBeginning) {
  const TempFolder folder;
  folder.write("log", "one\ntwo\n");
  const int closed_to_readers = open(folder.path("log").c_str(), O_WRONLY);
  LinesFromEnd refused(closed_to_readers, 8);
  EXPECT_FALSE(refused.next());
  EXPECT_EQ(refused.error(), EBADF);
  close(closed_to_readers);

  const int descriptor = open(folder.path("log").c_str(), O_RDONLY);
  LinesFromEnd whole(descriptor, 8), cut_meanwhile(descriptor, 9);
  EXPECT_EQ(whole.next()->text, "two");
  EXPECT_EQ(whole.next()->text, "one");
  EXPECT_FALSE(whole.next());
  EXPECT_EQ(whole.error(), 0);
  EXPECT_FALSE(cut_meanwhile.next());
  EXPECT_EQ(cut_meanwhile.error(), EIO);
  close(descriptor);
}

}  // namespace
}  // namespace zero::launcher::lines_from_end_test

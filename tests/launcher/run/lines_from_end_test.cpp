#include "launcher/run/lines_from_end.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher {
namespace {

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
}  // namespace zero::launcher

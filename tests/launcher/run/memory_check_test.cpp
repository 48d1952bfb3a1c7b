#include "launcher/run/memory_check.h"

#include <gtest/gtest.h>

namespace zero::launcher::memory_check_test {
namespace {

TEST(MemoryCheck, WhatIsHeldAlreadyIsRoom) {
  constexpr int64_t kHeld = int64_t{1} << 40;
  const Settings settings;
  EXPECT_GE(room_on_host(settings, kHeld), kHeld);
}

TEST(MemoryCheck, ALimitIsNoMoreThanThereIs) {
  Settings settings;
  settings.host_memory = 1 << 20;
  EXPECT_EQ(room_on_host(settings, 0), 1 << 20);
  settings.host_memory = int64_t{1} << 60;
  EXPECT_LT(room_on_host(settings, 0), int64_t{1} << 50);
}

}  // namespace
}  // namespace zero::launcher::memory_check_test

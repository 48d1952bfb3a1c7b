#include "launcher/run/memory_check.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/comm/thread_ranks.h"
#include "launcher/process/world.h"
#include "zero/errors.h"

namespace zero::launcher::memory_check_test {
namespace {

TEST(MemoryCheck, WhatIsHeldAlreadyIsRoom) {
  constexpr int64_t kHeld = int64_t{1} << 40;
  const Settings settings;
  EXPECT_GE(room_on_host(settings, kHeld), kHeld);
}

constexpr int64_t kMiB = 1 << 20;

// What two ranks of this host are told.
std::string refusal(const RunPlan& plan, const Settings& settings, int64_t gpu_room = 0) {
  const World world(std::nullopt);
  const std::unique_ptr<Ranks> ranks = make_one_rank();
  try {
    require_memory(*ranks, world, plan, settings, gpu_room, [] { return "advice"; });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    return error.problem() + "; " + error.cure();
  }
  return "";
}

// Beside what a forward has of activations, which is unknown.
TEST(MemoryCheck, TextsThatAreMadeMustFit) {
  RunPlan plan;
  plan.is_forward_alone = true;
  plan.engine = {{"masters", "host", 2 * kMiB}};
  plan.activations = 100 * kMiB;
  plan.key_values = 2 * kMiB;
  Settings settings;
  settings.host_memory = 3 * kMiB;
  EXPECT_EQ(
      refusal(plan, settings),
      "memory does not suffice: the engine, and keys and values, take 4.0 MiB on "
      "this host (1 rank(s) of 4.0 MiB), 3.0 MiB is allowed by host_memory; a larger "
      "--host-memory, or advice");
  plan.on_gpu = true;
  EXPECT_EQ(refusal(plan, settings, 2 * kMiB), "") << "they lie on the GPU";
  EXPECT_NE(refusal(plan, settings, kMiB), "");
}

TEST(MemoryCheck, TheEngineOrAllOfItIsToBlame) {
  RunPlan plan;
  plan.ranks_on_node = 2;
  plan.engine = {{"masters", "host", 2 * kMiB}};
  plan.activations = kMiB;
  Settings settings;
  settings.host_memory = 6 * kMiB;
  EXPECT_EQ(refusal(plan, settings), "");
  settings.host_memory = 5 * kMiB;
  EXPECT_EQ(refusal(plan, settings),
            "memory does not suffice: engine, activations and program take about 6.0 MiB "
            "on this host (2 rank(s) of 3.0 MiB), 5.0 MiB is allowed by host_memory; a "
            "larger --host-memory, or advice");
  settings.host_memory = 3 * kMiB;
  EXPECT_EQ(refusal(plan, settings),
            "memory does not suffice: the engine takes 4.0 MiB on this host (2 rank(s) "
            "of 2.0 MiB), 3.0 MiB is allowed by host_memory; a larger --host-memory, or "
            "advice");
  settings.ignore_plan = true;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(plan, settings), "");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("memory may not suffice"),
            std::string::npos);
}

TEST(MemoryCheck, AGpuMustHoldTheEngine) {
  RunPlan plan;
  plan.ranks_on_node = 1;
  plan.on_gpu = true;
  plan.engine = {{"ring", "device", 3 * kMiB}};
  Settings settings;
  settings.device_memory = 2 * kMiB;
  EXPECT_EQ(refusal(plan, settings, 2 * kMiB),
            "a GPU's memory does not suffice: the engine takes 3.0 MiB of it by each "
            "rank, 2.0 MiB is allowed by device_memory; advice");
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

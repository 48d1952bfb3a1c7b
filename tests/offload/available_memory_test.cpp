#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "offload/topology.h"

namespace zero::available_memory_test {
namespace {

// A machine made of files: 8000 KiB are available, and the control groups that a test
// adds.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "zero_memory_XXXXXX").string();
    root = mkdtemp(pattern.data());
    write("/proc/meminfo",
          "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
  }
  ~AvailableMemoryTest() override { std::filesystem::remove_all(root); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  void group_v2(const std::string& group, const std::string& limit,
                const std::string& usage) {
    write("/sys/fs/cgroup" + group + "/memory.max", limit + "\n");
    write("/sys/fs/cgroup" + group + "/memory.current", usage + "\n");
  }

  void group_v1(const std::string& group, const std::string& limit,
                const std::string& usage) {
    write("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes", limit + "\n");
    write("/sys/fs/cgroup/memory" + group + "/memory.usage_in_bytes", usage + "\n");
  }

  int64_t available() { return available_memory_bytes(root); }

  std::string root;
};

constexpr int64_t kWholeMachine = 8000 * 1024;

TEST_F(AvailableMemoryTest, IsWhatTheKernelSays) {
  EXPECT_EQ(available(), kWholeMachine);
}

TEST_F(AvailableMemoryTest, ObeysTheLimitOfVersion2) {
  write("/proc/self/cgroup", "0::/job\n");
  group_v2("/job", "5000", "1200");
  EXPECT_EQ(available(), 3800);
}

TEST_F(AvailableMemoryTest, ObeysTheLimitOfVersion1) {
  write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/job\n3:cpuset:/\n");
  group_v1("/job", "5000", "1000");
  EXPECT_EQ(available(), 4000);
}

TEST_F(AvailableMemoryTest, ObeysTheTightestGroupAbove) {
  write("/proc/self/cgroup", "0::/slurm/job/step\n");
  group_v2("/slurm/job/step", "max", "100");
  group_v2("/slurm/job", "5000", "2000");
  group_v2("/slurm", "7000", "6500");
  EXPECT_EQ(available(), 500);
}

TEST_F(AvailableMemoryTest, ObeysTheContainersRootGroup) {
  write("/proc/self/cgroup", "0::/\n");
  group_v2("", "5000", "1000");
  EXPECT_EQ(available(), 4000);
}

TEST_F(AvailableMemoryTest, GroupsThatAreNotVisibleDoNotLimit) {
  write("/proc/self/cgroup", "4:memory:/docker/abc\n0::/docker/abc\n");
  group_v1("", "6000", "1000");
  EXPECT_EQ(available(), 5000);
}

TEST_F(AvailableMemoryTest, ALimitWhoseUseNobodyTellsDoesNotLimit) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "5000\n");
  EXPECT_EQ(available(), kWholeMachine);
}

TEST_F(AvailableMemoryTest, FileCacheCountsAsFree) {
  write("/proc/self/cgroup", "0::/job\n");
  group_v2("/job", "5000", "4000");
  write("/sys/fs/cgroup/job/memory.stat",
        "anon 1000\ninactive_file 2500\nactive_file 500\n");
  EXPECT_EQ(available(), 3500);
}

TEST_F(AvailableMemoryTest, Version1CountsTheCacheOfTheWholeTree) {
  write("/proc/self/cgroup", "4:memory:/job\n");
  group_v1("/job", "5000", "4000");
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 100\ntotal_active_file 700\ntotal_inactive_file 2500\n");
  EXPECT_EQ(available(), 3500);
}

// The two numbers are read one after the other, while the group runs on.
TEST_F(AvailableMemoryTest, NoMoreCacheIsFreeThanIsUsed) {
  write("/proc/self/cgroup", "0::/job\n");
  group_v2("/job", "5000", "4000");
  write("/sys/fs/cgroup/job/memory.stat", "inactive_file 4500\n");
  EXPECT_EQ(available(), 5000);
}

TEST_F(AvailableMemoryTest, NoLimitIsTheMachine) {
  write("/proc/self/cgroup", "4:memory:/\n0::/\n");
  group_v1("", "9223372036854771712", "1000");
  group_v2("", "max", "1000");
  EXPECT_EQ(available(), kWholeMachine);
}

TEST_F(AvailableMemoryTest, IsNeverNegative) {
  write("/proc/self/cgroup", "0::/job\n");
  group_v2("/job", "5000", "6000");
  EXPECT_EQ(available(), 0);
}

TEST_F(AvailableMemoryTest, TheTightestLimitIsToldWhateverIsInUse) {
  EXPECT_GT(memory_limit_bytes(root), kWholeMachine);
  write("/proc/self/cgroup", "0::/job/step\n");
  group_v2("/job/step", "max", "1200");
  group_v2("/job", "5000", "1200");
  EXPECT_EQ(memory_limit_bytes(root), 5000);
}

TEST_F(AvailableMemoryTest, ThrowsWithoutMeminfo) {
  write("/proc/meminfo", "MemTotal: 9000 kB\n");
  EXPECT_THROW(available(), std::runtime_error);
}

TEST_F(AvailableMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace zero::available_memory_test

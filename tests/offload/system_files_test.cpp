#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/processes.h"

namespace zero::system_files_test {
namespace {

class SystemFilesTest : public ::testing::Test {
 protected:
  SystemFilesTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "zero_system_XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~SystemFilesTest() override { std::filesystem::remove_all(root); }

  std::string write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
    return root + path;
  }
  std::vector<std::string> folders(const std::string& controller) const {
    std::vector<std::string> folders;
    for (const ControlGroup& group : control_groups(controller, root))
      folders.push_back(std::to_string(group.version) + " " +
                        group.folder.substr(root.size()));
    return folders;
  }

  std::string root;
};

TEST_F(SystemFilesTest, SecondsThatThreadsWaitedForACore) {
  EXPECT_EQ(seconds_without_core(root), 0);
  write("/proc/self/task/7/schedstat", "9000000000 1500000000 3\n");
  write("/proc/self/task/8/schedstat", "1 500000000 3\n");
  write("/proc/self/task/9/schedstat", "");
  EXPECT_EQ(seconds_without_core(root), 2);
}

TEST_F(SystemFilesTest, NumbersAndLines) {
  EXPECT_EQ(read_number(write("/a", "12 34\n")), 12);
  EXPECT_EQ(read_number(write("/b", "max\n")), std::nullopt);
  EXPECT_EQ(read_number(root + "/none"), std::nullopt);
  EXPECT_EQ(read_field(write("/c", "ab 1\nb 2\n"), "b"), 2);
  EXPECT_EQ(read_field(root + "/c", "a"), std::nullopt);
  EXPECT_EQ(read_line(root + "/c"), "ab 1");
  EXPECT_EQ(read_line(root + "/none"), "");
}

TEST_F(SystemFilesTest, GroupsOfBothVersionsFromTheInnermostOn) {
  write("/proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/a/b\n0::/\n");
  const std::vector<std::string> expected = {"1 /sys/fs/cgroup/cpu/a/b",
                                             "1 /sys/fs/cgroup/cpu/a",
                                             "1 /sys/fs/cgroup/cpu", "2 /sys/fs/cgroup"};
  EXPECT_EQ(folders("cpu"), expected);
  EXPECT_EQ(folders("memory"), std::vector<std::string>{"2 /sys/fs/cgroup"});
  write("/proc/self/cgroup", "0::none\n0::/\n");
  EXPECT_EQ(folders("cpu"), std::vector<std::string>{"2 /sys/fs/cgroup"});
}

}  // namespace
}  // namespace zero::system_files_test

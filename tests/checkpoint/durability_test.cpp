#include <gmock/gmock.h>
#include <sys/stat.h>

#include <set>
#include <utility>

#include "checkpoint/format.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/tidy.h"
#include "support.h"

// What a power cut could take: bytes and names that no fsync has seen.
namespace zero::checkpoint::testing::durability_test {
namespace {

using Inode = std::pair<dev_t, ino_t>;

Inode inode_of(int file_or_folder) {
  struct stat status {};
  EXPECT_EQ(::fstat(file_or_folder, &status), 0);
  return {status.st_dev, status.st_ino};
}

// Knows what is not durable yet, and looks at it where that matters.
class WatchfulIo : public Io {
 public:
  explicit WatchfulIo(const std::string& run)
      : run_(inode_of(Folder(run).descriptor())) {}

  std::set<Inode> at_risk;

  int create(int folder, const char* name) override {
    const int file = Io::create(folder, name);
    at_risk.insert(inode_of(folder));
    at_risk.insert(inode_of(file));
    return file;
  }
  ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) override {
    at_risk.insert(inode_of(file));
    return Io::pwrite(file, data, bytes, offset);
  }
  int fsync(int file_or_folder) override {
    at_risk.erase(inode_of(file_or_folder));
    return Io::fsync(file_or_folder);
  }
  int mkdir(int folder, const char* name) override {
    at_risk.insert(inode_of(folder));
    return Io::mkdir(folder, name);
  }
  int link(int folder, const char* from, const char* to) override {
    expect_durable_before_naming(folder);
    at_risk.insert(inode_of(folder));
    return Io::link(folder, from, to);
  }
  int rename(int folder, const char* from, const char* to) override {
    if (step_of(to)) expect_durable_before_naming(folder);
    at_risk.insert(inode_of(folder));
    return Io::rename(folder, from, to);
  }
  int exchange(int folder, const char* one, const char* other) override {
    expect_durable_before_naming(folder);
    at_risk.insert(inode_of(folder));
    return Io::exchange(folder, one, other);
  }
  // Files of a checkpoint go when it has lost its name for good.
  int unlink(int folder, const char* name, bool is_folder) override {
    if (inode_of(folder) != run_) {
      EXPECT_FALSE(at_risk.contains(run_)) << name;
    }
    return Io::unlink(folder, name, is_folder);
  }

 private:
  void expect_durable_before_naming(int folder) {
    auto others = at_risk;
    others.erase(inode_of(folder));
    EXPECT_TRUE(others.empty());
  }

  const Inode run_;
};

class DurabilityTest : public CheckpointTest {
 protected:
  DurabilityTest() : io(run) {}

  WatchfulIo io;
};

TEST_F(DurabilityTest, AStepIsDurableBeforeItHasItsName) {
  save(small_model(1), {.step = 1}, io);
  save(small_model(2), {.step = 1, .existing = Existing::kReplace}, io);
}

TEST_F(DurabilityTest, WhatIsPurgedHasLostItsNameForGood) {
  for (const int64_t step : {1, 2, 3}) save(small_model(), {.step = step});
  EXPECT_EQ(purge(OpenRun(run, io), {.keep = 1}, 3), 2);
}

TEST_F(DurabilityTest, NamesGivenOnceStay) {
  save(small_model(), {.step = 1});
  set_aside(OpenRun(run, io), 1);
  EXPECT_TRUE(io.at_risk.empty());
  make_run_folder(run + "/new/deep", io);
  EXPECT_TRUE(io.at_risk.empty());
}

TEST_F(DurabilityTest, ALockIsDurableBeforeItHasItsName) {
  const RunLock mine(run, "", TakeOver::kFromTheDead, io);
}

}  // namespace
}  // namespace zero::checkpoint::testing::durability_test

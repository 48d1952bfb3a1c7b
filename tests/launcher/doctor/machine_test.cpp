// Processors, memory, limits and disks that nobody has.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/doctor/finding.h"
#include "offload/topology.h"
#include "tests/launcher/doctor/found.h"

namespace zero::launcher::machine_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;

// ---- processors

ProcessorFacts good_processor() {
  return {.num_present = 8,
          .num_allowed = 8,
          .num_current = 8,
          .num_cores = 4,
          .num_numa_nodes = 2,
          .quota = 0,
          .isa = "avx2"};
}

TEST(DoctorProcessor, AWholeMachineIsWell) { expect_all_ok(good_processor()); }

TEST(DoctorProcessor, FewerCpusThanThereAre) {
  ProcessorFacts facts = good_processor();
  facts.num_allowed = facts.num_current = 7;
  EXPECT_EQ(mark_of(facts, "cores"), Mark::kNote);
  facts.num_current = 1;
  EXPECT_EQ(mark_of(facts, "cores"), Mark::kNote);
  EXPECT_THAT(found(judge(facts), "cores").text, HasSubstr("pinned, 7 are allowed"));
}

TEST(DoctorProcessor, AQuotaBelowTheCpusStopsThreads) {
  ProcessorFacts facts = good_processor();
  facts.quota = 7.5;
  EXPECT_EQ(mark_of(facts, "quota"), Mark::kNote);
  EXPECT_THAT(found(judge(facts), "quota").cure, HasSubstr("7 in all"));
  facts.quota = 8;
  EXPECT_EQ(mark_of(facts, "quota"), Mark::kOk);
}

TEST(DoctorProcessor, PlainInstructionsAreSlow) {
  ProcessorFacts facts = good_processor();
  facts.isa = "baseline";
  EXPECT_EQ(mark_of(facts, "instructions"), Mark::kNote);
}

TEST(DoctorProcessor, Bf16WithoutInstructionsIsSlow) {
  ProcessorFacts facts = good_processor();
  facts.has_bf16 = false;
  EXPECT_EQ(mark_of(facts, "bf16"), Mark::kNote);
}

class CpuQuota : public ::testing::Test {
 protected:
  CpuQuota() {
    std::string pattern = (fs::temp_directory_path() / "zero_quota_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~CpuQuota() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(CpuQuota, TheTightestGroupOfVersion2Counts) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root_), 0);
  write("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
  write("/sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
}

TEST_F(CpuQuota, Version1HasTwoFiles) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/other\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 0);
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(cpu_quota(root_), 0.5);
}

TEST(DoctorProcessor, ThisMachineCanBeLookedAt) {
  const ProcessorFacts facts = read_processor();
  EXPECT_GE(facts.num_present, facts.num_allowed);
  EXPECT_GE(facts.num_allowed, facts.num_current);
  EXPECT_GE(facts.num_current, 1);
}

// ---- memory

MemoryFacts good_memory() {
  MemoryFacts facts;
  facts.total = 64 * kGiB;
  facts.free = 60 * kGiB;
  facts.huge_pages = "madvise";
  facts.rates = {{1, 9e9}, {2, 17e9}, {4, 16e9}};
  return facts;
}

TEST(DoctorMemory, AnIdleMachineIsWell) {
  expect_all_ok(good_memory());
  EXPECT_THAT(found(judge(good_memory()), "speed").text,
              HasSubstr("17.0 GB/s, as the optimizer moves 64 MiB (threads 1: 9.0"));
}

TEST(DoctorMemory, LittleIsFreeOfWhatIsAllowed) {
  MemoryFacts facts = good_memory();
  facts.free = 12 * kGiB;
  EXPECT_EQ(mark_of(facts, "room"), Mark::kNote);
  facts.group_limit = 13 * kGiB;
  EXPECT_EQ(mark_of(facts, "room"), Mark::kOk);
  EXPECT_THAT(found(judge(facts), "room").text, HasSubstr("13.0 GiB allowed"));
  facts.free = 511 * kMiB;
  EXPECT_EQ(mark_of(facts, "room"), Mark::kBad);
}

TEST(DoctorMemory, SwapThatIsUsed) {
  MemoryFacts facts = good_memory();
  facts.swap_total = 10 * kGiB;
  facts.swap_free = 9 * kGiB;
  EXPECT_EQ(mark_of(facts, "swap"), Mark::kOk);
  facts.swap_free = 8 * kGiB;
  EXPECT_EQ(mark_of(facts, "swap"), Mark::kNote);
}

TEST(DoctorMemory, PoliciesOfTheKernel) {
  MemoryFacts facts = good_memory();
  facts.overcommit = 1;
  EXPECT_EQ(mark_of(facts, "overcommit"), Mark::kOk);
  facts.overcommit = 2;
  EXPECT_EQ(mark_of(facts, "overcommit"), Mark::kNote);
  facts.overcommit = -1;
  EXPECT_EQ(mark_of(facts, "overcommit"), Mark::kNote);
  for (const char* policy : {"never", ""}) {
    facts.huge_pages = policy;
    EXPECT_EQ(mark_of(facts, "huge pages"), Mark::kNote);
  }
  EXPECT_EQ(chosen_in("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_in(""), "");
}

TEST(DoctorMemory, SlowOrNotMeasured) {
  MemoryFacts facts = good_memory();
  facts.rates = {{1, 2.9e9}};
  EXPECT_EQ(mark_of(facts, "speed"), Mark::kNote);
  facts.rates = {};
  EXPECT_EQ(mark_of(facts, "speed"), Mark::kNote);
}

LimitFacts good_limits() {
  LimitFacts facts;
  facts.shm_total = facts.shm_free = kGiB;
  return facts;
}

TEST(DoctorLimits, NoLimitsAreWell) { expect_all_ok(good_limits()); }

TEST(DoctorLimits, LockedMemoryMattersToGpusAlone) {
  LimitFacts facts = good_limits();
  facts.locked = 8 * kMiB;
  EXPECT_EQ(mark_of(facts, "memlock"), Mark::kOk);
  facts.has_gpu_or_rdma = true;
  EXPECT_EQ(mark_of(facts, "memlock"), Mark::kNote);
}

TEST(DoctorLimits, FewFilesProcessesAndBytes) {
  LimitFacts facts = good_limits();
  facts.open_files = 1024;
  facts.processes = 1023;
  EXPECT_EQ(mark_of(facts, "open files"), Mark::kOk);
  EXPECT_EQ(mark_of(facts, "processes"), Mark::kNote);
  facts.open_files = 255;
  EXPECT_EQ(mark_of(facts, "open files"), Mark::kBad);
  facts.file = kGiB;
  EXPECT_EQ(mark_of(facts, "file size"), Mark::kNote);
  facts.file = kGiB - 1;
  EXPECT_EQ(mark_of(facts, "file size"), Mark::kBad);
  facts.address_space = 100 * kGiB;
  EXPECT_EQ(mark_of(facts, "address space"), Mark::kNote);
}

TEST(DoctorLimits, SharedMemoryOfAContainer) {
  LimitFacts facts = good_limits();
  facts.shm_total = facts.shm_free = 64 * kMiB;
  EXPECT_EQ(mark_of(facts, "/dev/shm"), Mark::kNote);
  facts.shm_free = 16 * kMiB;
  EXPECT_EQ(mark_of(facts, "/dev/shm"), Mark::kBad);
  facts.shm_total = -1;
  EXPECT_EQ(mark_of(facts, "/dev/shm"), Mark::kNote);
}

// ---- disks

DiskFacts good_disk() {
  DiskFacts facts;
  facts.kind = "xfs";
  facts.free = 360'000'000'000;
  facts.total = 2 * facts.free;
  facts.bytes = 256 * kMiB;
  facts.write_seconds = 0.3;
  facts.read_seconds = 0.1;
  return facts;
}

TEST(DoctorDisk, AFastOneWithRoomIsWell) {
  expect_all_ok(good_disk());
  EXPECT_THAT(found(judge(good_disk()), "room").text,
              HasSubstr("a model of 10.0G parameters"));
  EXPECT_EQ(found(judge(good_disk()), "speed").numbers["read_gb_per_s"], 2.68435456);
}

TEST(DoctorDisk, KindsThatSurprise) {
  DiskFacts facts = good_disk();
  for (const char* kind : {"tmpfs", "overlay", "nfs"}) {
    facts.kind = kind;
    EXPECT_EQ(mark_of(facts, "kind"), Mark::kNote) << kind;
  }
  EXPECT_EQ(kind_of_file_system(0x6969), "nfs");
  EXPECT_EQ(kind_of_file_system(0xFF534D42), "cifs");
  EXPECT_EQ(kind_of_file_system(static_cast<int32_t>(0xFF534D42)), "cifs");
  EXPECT_EQ(kind_of_file_system(0x1234), "kind 0x1234");
}

TEST(DoctorDisk, RoomAndSpeed) {
  DiskFacts facts = good_disk();
  facts.free = 10 * kGiB - 1;
  EXPECT_EQ(mark_of(facts, "room"), Mark::kNote);
  facts.free = kGiB / 4 - 1;
  EXPECT_EQ(mark_of(facts, "room"), Mark::kBad);
  facts.write_seconds = 2.7;
  EXPECT_EQ(mark_of(facts, "speed"), Mark::kNote);
  facts.bytes = 0;
  EXPECT_EQ(mark_of(facts, "speed"), Mark::kNote);
}

TEST(DoctorDisk, IsMeasuredAndNothingStays) {
  std::string pattern = (fs::temp_directory_path() / "zero_disk_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  const DiskFacts facts = read_disk(folder / "not" / "yet");
  EXPECT_FALSE(facts.is_there);
  EXPECT_EQ(facts.problem, "");
  EXPECT_GT(facts.bytes, 0);
  EXPECT_GT(facts.write_seconds, 0);
  EXPECT_TRUE(fs::is_empty(folder));
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(mark_of(read_disk(folder / "file"), "writing"), Mark::kBad);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace zero::launcher::machine_test

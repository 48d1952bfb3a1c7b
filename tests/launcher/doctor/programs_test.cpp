// MPIs, libraries and GPUs that nobody has, and how findings are told.
#include <gmock/gmock.h>

#include <stdexcept>

#include "launcher/doctor/finding.h"
#include "tests/launcher/doctor/found.h"
#include "zero/errors.h"

namespace zero::launcher::programs_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- MPI

Hello hello_that(int code, const std::string& text) {
  Hello hello;
  hello.limit = 10;
  hello.outcome = {code, false, text, 0.5};
  return hello;
}

MpiFacts good_mpi() {
  MpiFacts facts;
  facts.library = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
  facts.mpirun = "mpirun (Open MPI) 4.1.5";
  facts.num_cores = 2;
  facts.hello = hello_that(0, "a warning\nhello from 2 ranks on 1 host\n");
  return facts;
}

TEST(DoctorMpi, TheSameSeriesAndAHelloAreWell) {
  expect_all_ok(good_mpi());
  EXPECT_THAT(found(judge(good_mpi()), "hello").text,
              HasSubstr("hello from 2 ranks on 1 host, 0.5 s (mpirun)"));
}

TEST(DoctorMpi, AnotherMpirun) {
  MpiFacts facts = good_mpi();
  for (const char* other :
       {"mpirun (Open MPI) 4.0.5", "mpirun (Open MPI) 5.1.4",
        "HYDRA build details: Version: 4.1.4", "mpirun --version says nothing"}) {
    facts.mpirun = other;
    EXPECT_EQ(mark_of(facts, "mpirun"), Mark::kBad) << other;
  }
  facts.mpirun = "";
  facts.hello.reset();
  EXPECT_EQ(mark_of(facts, "mpirun"), Mark::kNote);
  EXPECT_EQ(mark_of(facts, "hello"), Mark::kNote);
}

TEST(DoctorMpi, RanksThatDoNotFindEachOther) {
  MpiFacts facts = good_mpi();
  facts.hello = hello_that(0, "hello from 1 ranks on 1 host\n");
  EXPECT_EQ(mark_of(facts, "hello"), Mark::kBad);
  facts.hello =
      hello_that(1, "-----\n\nmpirun has detected an attempt to run as root.\n");
  EXPECT_EQ(mark_of(facts, "hello"), Mark::kBad);
  EXPECT_THAT(found(judge(facts), "hello").text,
              HasSubstr("code 1: mpirun has detected"));
  facts.hello->cure = "allow it";
  EXPECT_EQ(found(judge(facts), "hello").cure, "allow it");
  facts.hello = hello_that(0, "hello from 2 ranks on 1 host\n");
  facts.hello->outcome.is_late = true;
  EXPECT_EQ(mark_of(facts, "hello"), Mark::kBad);
}

TEST(DoctorMpi, SlurmWithoutPmixOrWithoutSrun) {
  MpiFacts facts = good_mpi();
  facts.num_slurm_tasks = 1;
  EXPECT_EQ(mark_of(facts, "Slurm"), Mark::kOk);
  facts.num_slurm_tasks = 4;
  EXPECT_EQ(mark_of(facts, "Slurm"), Mark::kNote);
  facts.announced = AnnouncedWorld{"SLURM_STEP_NUM_TASKS", 4, 0};
  EXPECT_EQ(mark_of(facts, "Slurm"), Mark::kBad);
  facts.has_pmix = true;
  EXPECT_EQ(mark_of(facts, "Slurm"), Mark::kOk);
}

TEST(DoctorMpi, RootIsToldOfItsVariables) {
  MpiFacts facts = good_mpi();
  facts.is_root = true;
  EXPECT_EQ(mark_of(facts, "user"), Mark::kNote);
  facts.allows_root = true;
  EXPECT_EQ(mark_of(facts, "user"), Mark::kOk);
}

// ---- libraries

TEST(DoctorLibraries, OthersThanTheBuilds) {
  const std::vector<LibraryFacts> facts = {{"A", "1.2", "1.2", true},
                                           {"B", "1.2", "1.3", true},
                                           {"C", "1.2", "1.3"},
                                           {"D", "1.2", ""},
                                           {"E", "", ""}};
  EXPECT_EQ(mark_of(facts, "A"), Mark::kOk);
  EXPECT_EQ(mark_of(facts, "B"), Mark::kBad);
  EXPECT_EQ(mark_of(facts, "C"), Mark::kNote);
  EXPECT_EQ(mark_of(facts, "D"), Mark::kOk);
  EXPECT_EQ(mark_of(facts, "E"), Mark::kOk);
}

TEST(DoctorLibraries, VersionsAsText) {
  EXPECT_EQ(version_in("Open MPI v4.1.4, package"), "4.1.4");
  EXPECT_EQ(version_in("NVRM version: NVIDIA UNIX x86_64 Module  580.65.06  Sun"),
            "580.65.06");
  EXPECT_EQ(version_in("none"), "");
  EXPECT_EQ(cuda_version_text(13010), "13.1");
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(cuda_version_text(0), "");
}

TEST(DoctorLibraries, ThoseOfThisBuildAreLoaded) {
  const Findings findings = judge(read_libraries({"2.11.0", "2.11.0"}));
  for (const char* name : {"zero", "LibTorch", "OpenMPI", "HDF5", "oneTBB", "compiler"})
    EXPECT_EQ(found(findings, name).mark, Mark::kOk) << found(findings, name).text;
  EXPECT_EQ(found(findings, "zero").text, program_version());
}

// ---- GPUs

GpuFacts good_gpus() {
  GpuFacts facts;
  facts.gpus = {{"NVIDIA H100, CUDA 13.0", 79, 80}, {"NVIDIA H100, CUDA 13.0", 72, 80}};
  facts.num_on_bus = 2;
  facts.driver = "580.65.06";
  facts.has_part_for_gpus = true;
  return facts;
}

TEST(DoctorGpus, FreeOnesAreWell) { expect_all_ok(good_gpus()); }

TEST(DoctorGpus, NoneIsWellToo) { expect_all_ok(GpuFacts()); }

TEST(DoctorGpus, OneThatIsInUse) {
  GpuFacts facts = good_gpus();
  facts.gpus[1].free = 71;
  EXPECT_EQ(mark_of(facts, "GPU 0"), Mark::kOk);
  EXPECT_EQ(mark_of(facts, "GPU 1"), Mark::kNote);
}

TEST(DoctorGpus, OnesThatCannotBeUsed) {
  GpuFacts facts = good_gpus();
  facts.gpus.clear();
  EXPECT_EQ(mark_of(facts, "GPUs"), Mark::kBad);
  EXPECT_THAT(found(judge(facts), "GPUs").text, HasSubstr("2 of NVIDIA on the bus"));
  facts.is_hidden = true;
  EXPECT_EQ(mark_of(facts, "GPUs"), Mark::kNote);
  facts.problem = "there is a GPU, but libzero_cuda.so is not";
  facts.cure = "build it";
  EXPECT_EQ(mark_of(facts, "GPUs"), Mark::kBad);
  EXPECT_EQ(found(judge(facts), "GPUs").text, facts.problem);
}

TEST(DoctorGpus, AnOldDriver) {
  GpuFacts facts = good_gpus();
  facts.driver = "575.57.08";
  EXPECT_EQ(mark_of(facts, "driver"), Mark::kBad);
}

// ---- how it is told

Diagnosis some() {
  return {{"processor", {{Mark::kOk, "cores", "2 of 2", ""}}},
          {"disk",
           {{Mark::kNote, "kind", "tmpfs", "--out DIR", {{"number", 7}}},
            {Mark::kBad, "room", "\x1b[2J", "remove"}}}};
}

TEST(DoctorPage, TellsMarksAndCures) {
  const std::string page = to_page(some(), 1);
  EXPECT_THAT(page,
              HasSubstr("disk\n  note  kind          tmpfs\n        try: --out DIR\n"));
  EXPECT_THAT(page, HasSubstr("  ok    cores         2 of 2\n\n"));
  EXPECT_THAT(page, HasSubstr("1 ok, 1 to note, 1 bad; 1.0 s"));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
}

TEST(DoctorPage, IsOneObjectForPrograms) {
  const json told = json::parse(to_line(some(), 1));
  EXPECT_EQ(told["bad"], 1);
  EXPECT_EQ(told["findings"][1]["group"], "disk");
  EXPECT_EQ(told["findings"][1]["mark"], "note");
  EXPECT_EQ(told["findings"][1]["number"], 7);
  EXPECT_FALSE(told["findings"][0].contains("cure"));
}

TEST(DoctorPage, WhatCannotBeLookedAtIsAFinding) {
  const FindingGroup group =
      look_at("GPUs", []() -> Findings { throw std::runtime_error("no /sys"); });
  EXPECT_EQ(group.findings.at(0).mark, Mark::kBad);
  EXPECT_THAT(group.findings[0].text, HasSubstr("no /sys"));
  const FindingGroup other = look_at("GPUs", []() -> Findings {
    throw Error(ExitCode::kUsage, "no", "there", "do it");
  });
  EXPECT_EQ(other.findings.at(0).cure, "do it");
}

}  // namespace
}  // namespace zero::launcher::programs_test

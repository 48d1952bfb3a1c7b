#include "launcher/run/failure.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/error.h"
#include "launcher/data/mapped_file.h"
#include "launcher/process/world.h"
#include "offload/host_arena.h"

namespace zero::launcher::failure_test {
namespace {

using ::testing::HasSubstr;

template <class Exception>
Error described(const Exception& exception) {
  return describe(std::make_exception_ptr(exception));
}

TEST(Report, ThreeLines) {
  EXPECT_STREQ(Error(ExitCode::kData, "a", "b", "c").what(), "a\n  where: b\n  try:   c");
  EXPECT_STREQ(Error(ExitCode::kData, "a", "", "").what(), "a");
}

TEST(Report, OurOwnErrorsKeepTheirParts) {
  const Error failure = described(
      data::DataError("token 300 is too large", "a.bin, byte 8", "--vocab 301"));
  EXPECT_EQ(failure.code(), ExitCode::kData);
  EXPECT_STREQ(failure.what(),
               "token 300 is too large\n  where: a.bin, byte 8\n  try:   --vocab 301");
}

TEST(Report, EveryOtherKindHasACode) {
  const Error checkpoint =
      described(checkpoint::CheckpointError("f.h5", "w", "is short", "restore it"));
  EXPECT_EQ(checkpoint.code(), ExitCode::kCheckpoint);
  EXPECT_EQ(checkpoint.where(), "f.h5, w");
  EXPECT_EQ(checkpoint.problem(), "it is short");
  EXPECT_EQ(described(checkpoint::CheckpointError("f.h5", "", "x")).where(), "f.h5");
  EXPECT_EQ(described(HostMemoryError("x")).code(), ExitCode::kEnvironment);
  EXPECT_EQ(described(std::bad_alloc()).code(), ExitCode::kEnvironment);
  EXPECT_EQ(described(std::runtime_error("x")).code(), ExitCode::kTraining);
  const std::filesystem::filesystem_error disk(
      "mkdir", "/out", std::make_error_code(std::errc::permission_denied));
  EXPECT_EQ(described(disk).code(), ExitCode::kCheckpoint);
  EXPECT_EQ(described(disk).where(), "/out");
  EXPECT_EQ(describe(std::make_exception_ptr(1)).code(), ExitCode::kTraining);
}

TEST(Report, TorchIsCutToItsFirstLine) {
  const std::runtime_error shapes(
      "mat1 and mat2 cannot be multiplied\nException raised from addmm at a.cpp:1\nframe "
      "#0");
  EXPECT_EQ(described(shapes).problem(), "mat1 and mat2 cannot be multiplied");
  const std::runtime_error memory(
      "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory");
  EXPECT_EQ(described(memory).code(), ExitCode::kEnvironment);
}

TEST(Report, AProcessByItselfPrintsAndGivesTheCode) {
  World alone(std::nullopt);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(report_and_end({ExitCode::kData, "a", "b", ""}, alone), 6);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "zero: a\n  where: b\n");
}

TEST(Report, BeforeMpiTheFirstRankSpeaks) {
  for (const std::optional<int> rank : {std::optional<int>(), std::optional(0)}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(report_alone({ExitCode::kUsage, "a", "", ""}, rank), 2);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "zero: a\n");
  }
}

// Files and their names may hold anything.
TEST(Report, NothingThatItPrintsControlsTheTerminal) {
  ::testing::internal::CaptureStderr();
  report_alone({ExitCode::kUsage, "a\x1b[2J\nb", "c\x07", "d\xff"}, std::nullopt);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "zero: a\\x1b[2J\nb\n  where: c\\x07\n  try:   d\\xff\n");
}

// The first was well: on its host there is the file that this one lacks.
TEST(Report, BeforeMpiARankThatIsStillThereSpeaksToo) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(report_alone({ExitCode::kUsage, "a", "b", ""}, 2, {}), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "zero: a\n  where: b, rank 2\n");
}

}  // namespace
}  // namespace zero::launcher::failure_test

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/run/log_files.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::csv_file_test {
namespace {

class CsvFileTest : public ::testing::Test {
 protected:
  void write(const nlohmann::ordered_json& numbers) {
    CsvFile(folder.path("a.csv"), {"step", "loss", "eval"}).write(numbers);
  }
  std::string text() const { return folder.read("a.csv"); }

  TempFolder folder;
};

TEST_F(CsvFileTest, CellsStandUnderTheirNames) {
  write({{"loss", 0.1 + 0.2}, {"step", 1}});
  write({{"step", 1}, {"eval", 2}, {"other", 3}});
  EXPECT_EQ(text(), "step,loss,eval\n1,0.30000000000000004,\n1,,2\n");
}

TEST_F(CsvFileTest, AFileThatIsThereKeepsItsColumns) {
  folder.write("a.csv", "step,wall,loss\r\n1,2,3\n");
  write({{"step", 2}, {"loss", 4}});
  write({{"step", 2}, {"eval", 5}});  // of which it has nothing to tell
  EXPECT_EQ(text(), "step,wall,loss\r\n1,2,3\n2,,4\n");
}

TEST_F(CsvFileTest, WhatIsNotFiniteIsNan) {
  write({{"step", 1},
         {"loss", std::numeric_limits<double>::quiet_NaN()},
         {"eval", -std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(text(), "step,loss,eval\n1,nan,nan\n");
}

TEST_F(CsvFileTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(folder.path("a.csv").c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  write({{"step", 1}, {"loss", 2}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("cannot write"));
}

TEST_F(CsvFileTest, ALinkIsFollowedToATableOfOursAlone) {
  folder.write("ours.csv", "step,loss,eval\n");
  folder.write("theirs", "secrets\n");
  const auto lead_to = [&](const std::string& name) {
    std::filesystem::remove(folder.path("a.csv"));
    std::filesystem::create_symlink(name, folder.path("a.csv"));
    write({{"step", 1}, {"loss", 2}});
  };
  lead_to("ours.csv");
  EXPECT_EQ(folder.read("ours.csv"), "step,loss,eval\n1,2,\n");
  ::testing::internal::CaptureStderr();
  lead_to("theirs");
  lead_to("nowhere");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("a.csv: Too many levels of symbolic links"));
  EXPECT_EQ(folder.read("theirs"), "secrets\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path("nowhere")));
}

TEST_F(CsvFileTest, ATableThatIsMovedLeavesItsPlaceToANewOne) {
  CsvFile file(folder.path("a.csv"), {"step", "loss", "eval"});
  file.write({{"step", 1}, {"loss", 2}});
  std::filesystem::rename(folder.path("a.csv"), folder.path("b.csv"));
  file.write({{"step", 2}, {"loss", 3}});
  file.write({{"step", 3}, {"loss", 4}});
  EXPECT_EQ(folder.read("b.csv"), "step,loss,eval\n1,2,\n");
  EXPECT_EQ(text(), "step,loss,eval\n2,3,\n3,4,\n");
}

TEST_F(CsvFileTest, ATableThatIsReplacedGivesItsColumns) {
  CsvFile file(folder.path("a.csv"), {"step", "loss", "eval"});
  file.write({{"step", 1}, {"loss", 2}});
  std::filesystem::remove(folder.path("a.csv"));
  folder.write("a.csv", "loss,step\n");
  file.write({{"step", 2}, {"loss", 3}});
  EXPECT_EQ(text(), "loss,step\n3,2\n");
}

// Whoever wrote it may go on with it.
TEST_F(CsvFileTest, ALastLineWithoutAnEndKeepsItsPlace) {
  folder.write("a.csv", "step,loss,eval\n1,2,");
  write({{"step", 2}, {"loss", 3}});
  EXPECT_EQ(text(), "step,loss,eval\n1,2,\n2,3,\n");
}

}  // namespace
}  // namespace zero::launcher::csv_file_test

#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/commit.h"
#include "checkpoint/find.h"
#include "checkpoint/writer.h"
#include "launcher/run/resume.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"

namespace zero::launcher::resume_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResumePlanTest : public ::testing::Test {
 protected:
  std::string save(const std::string& run, int64_t step) {
    checkpoint::make_run_folder(folder.path(run));
    const checkpoint::OpenRun open(folder.path(run));
    std::string temporary = checkpoint::prepare(open, step);
    const std::vector<float> values(4, 1.0F);
    const checkpoint::Slice slice{
        {checkpoint::Kind::kParam, "w", DType::kFp32, {4}}, 0, 4, values.data()};
    const auto report = checkpoint::write_shard(temporary, 0, 1, {slice});
    checkpoint::StepInfo info;
    info.step = step;
    return checkpoint::commit(open, temporary, {report}, info);
  }

  static void damage(const std::string& step) {
    std::filesystem::remove(step + "/shard_00000_of_00001.h5");
  }

  ResumePlan plan(const std::string& resume, const std::string& run = "a") const {
    return plan_resume(resume, folder.path(run));
  }

  Error refusal(const std::string& resume) const {
    try {
      plan(resume);
    } catch (const Error& error) {
      return error;
    }
    return {ExitCode::kDone, "nothing was refused"};
  }

  TempFolder folder;
};

TEST_F(ResumePlanTest, AnEmptyRunStartsAnew) {
  EXPECT_THAT(plan("auto").folders, IsEmpty());
  EXPECT_THAT(plan("never").folders, IsEmpty());
  EXPECT_EQ(refusal("must").code(), ExitCode::kUsage);
  EXPECT_THAT(refusal("must").problem(), HasSubstr("--resume must"));
}

TEST_F(ResumePlanTest, AutoTriesTheNewestFirst) {
  const std::string old = save("a", 2), newest = save("a", 10);
  EXPECT_THAT(plan("auto").folders, ElementsAre(newest, old));
  EXPECT_TRUE(plan("auto").may_pass_over);
  EXPECT_THAT(plan("must").folders, ElementsAre(newest));
  EXPECT_FALSE(plan("must").may_pass_over);
  EXPECT_EQ(refusal("never").code(), ExitCode::kUsage);
}

TEST_F(ResumePlanTest, AutoPassesOverWhatIsIncomplete) {
  const std::string old = save("a", 2), newest = save("a", 10);
  damage(newest);
  EXPECT_THAT(plan("auto").folders, ElementsAre(old));
  EXPECT_THAT(plan("auto").passed_over,
              ElementsAre(HasSubstr("shard_00000_of_00001.h5")));
  EXPECT_THAT(plan(folder.path("a"), "b").folders, ElementsAre(old));
  EXPECT_THAT(plan(folder.path("a"), "b").passed_over,
              ElementsAre(HasSubstr("shard_00000_of_00001.h5")));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(find_and_tell(folder.path("a"), "--from"), old);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("passed over: " + newest));
  damage(old);
  EXPECT_EQ(refusal("auto").code(), ExitCode::kCheckpoint);
  EXPECT_EQ(refusal(folder.path("a")).code(), ExitCode::kCheckpoint);
  EXPECT_THAT(refusal("auto").problem(), HasSubstr("step_000000000002"));
}

TEST_F(ResumePlanTest, OlderDamageIsNoNews) {
  damage(save("a", 2));
  save("a", 10);
  EXPECT_THAT(plan("auto").passed_over, IsEmpty());
}

TEST_F(ResumePlanTest, AFolderIsAStepOrARun) {
  const std::string old = save("a", 2), newest = save("a", 10);
  EXPECT_THAT(plan(folder.path("a"), "b").folders, ElementsAre(newest));
  EXPECT_THAT(plan(old + "/", "b").folders, ElementsAre(old + "/"));
  EXPECT_THAT(plan(newest).folders, ElementsAre(newest));
}

TEST_F(ResumePlanTest, AFolderMustFitTheRun) {
  const std::string old = save("a", 2);
  save("a", 10);
  EXPECT_THAT(refusal(old).problem(), HasSubstr("newer checkpoint of step 10"));
  EXPECT_THAT(refusal(save("b", 3)).problem(), HasSubstr("beside the checkpoint"));
  EXPECT_THAT(refusal(folder.path("none")).problem(),
              HasSubstr("--resume names a folder that does not exist"));
  std::filesystem::create_directory(folder.path("empty"));
  EXPECT_THAT(refusal(folder.path("empty")).problem(), HasSubstr("without checkpoints"));
}

TEST_F(ResumePlanTest, AStepThatIsRemovedMeanwhileIsNotDamaged) {
  const std::string step = save("a", 2);
  const auto fail = [&] { throw FileError(step, "", "cannot be read"); };
  EXPECT_THROW(use_step(step, fail), FileError);
  std::filesystem::remove_all(step);
  try {
    use_step(step, fail);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_THAT(error.problem(), HasSubstr("removed while it was read"));
  }
}

TEST(FirstFew, ThreeThousandLinesAreSix) {
  const std::vector<std::string> few = first_few(std::vector<std::string>(3000, "x"));
  EXPECT_EQ(few.size(), 6u);
  EXPECT_EQ(few.back(), "... and 2995 more");
  const std::vector<std::string> five(5, "x");
  EXPECT_EQ(first_few(five), five);
}

}  // namespace
}  // namespace zero::launcher::resume_plan_test

#include "launcher/look/verify.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::verify_test {
namespace {

using checkpoint::testing::small_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VerifyFolders : public checkpoint::testing::CheckpointTest {
 protected:
  std::string refusal(const std::string& dir) {
    try {
      folders_to_verify(dir);
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  }
};

TEST_F(VerifyFolders, AreAllStepsOfARunOrTheOneThatIsNamed) {
  const std::string first = save(small_model(), {.step = 1}),
                    second = save(small_model(), {.step = 2});
  EXPECT_THAT(folders_to_verify(run), ElementsAre(first, second));
  EXPECT_THAT(folders_to_verify(first), ElementsAre(first));
}

TEST_F(VerifyFolders, AStepIsOneUnderAnotherName) {
  std::filesystem::rename(save(small_model()), run + "/best");
  EXPECT_THAT(folders_to_verify(run + "/best"), ElementsAre(run + "/best"));
}

TEST_F(VerifyFolders, WhatHasNoHashesIsRefused) {
  EXPECT_EQ(refusal(run), "there is no checkpoint");
  EXPECT_THAT(refusal(run + "/none"), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace zero::launcher::verify_test

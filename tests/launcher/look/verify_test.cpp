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

TEST_F(VerifyFolders, WhatOnlyHasAStepsNameIsADamage) {
  save(small_model(), {.step = 1});
  const std::string gone = run + "/step_000000000002", file = run + "/step_000000000003";
  std::filesystem::create_symlink("nowhere", gone);
  checkpoint::testing::write_file(file, "mine");
  EXPECT_THAT(folders_to_verify(run),
              ElementsAre(run + "/step_000000000001", gone, file));
  for (const std::string& folder : {gone, file})
    EXPECT_THAT(to_text(verify_folder(folder)), HasSubstr("cannot open the folder"));
}

TEST_F(VerifyFolders, WhatHasNoHashesIsRefused) {
  EXPECT_EQ(refusal(run), "there is no checkpoint");
  EXPECT_THAT(refusal(run + "/none"), HasSubstr("does not exist"));
}

class FrozenInCheckpoints : public checkpoint::testing::CheckpointTest {
 protected:
  // `frozen`: of one that has no state.
  std::string save_step(int64_t step, int seed, bool changes_frozen = false,
                        int ranks = 2) {
    auto model = small_model(seed);
    frozen = "";
    for (auto& tensor : model) {
      const bool is_param = tensor.kind == checkpoint::Kind::kParam;
      const bool has_state = std::ranges::any_of(model, [&](const auto& other) {
        return other.fqn == tensor.fqn && other.kind == checkpoint::Kind::kExpAvg;
      });
      if (!is_param || has_state || tensor.bytes.empty()) continue;
      frozen = tensor.fqn;
      tensor.bytes = small_model()[&tensor - model.data()].bytes;
      if (changes_frozen) tensor.bytes.back() ^= 1;
    }
    return save(model, {.step = step, .world_size = ranks});
  }
  std::string frozen;
};

TEST_F(FrozenInCheckpoints, AreComparedWithTheirNeighbours) {
  const std::string one = save_step(1, 0), two = save_step(2, 1);
  ASSERT_NE(frozen, "") << "small_model() trains all";
  const FrozenTensors same = compare_frozen_tensors({one, two});
  EXPECT_GE(same.num_same, 1);
  EXPECT_THAT(same.changed, ::testing::IsEmpty());
  EXPECT_THAT(to_text(same), HasSubstr("are the same"));
  const std::string three = save_step(3, 2, true);
  const FrozenTensors changed = compare_frozen_tensors({one, two, three});
  EXPECT_THAT(changed.changed,
              ::testing::Contains(frozen + " is another in step_000000000003 than in "
                                           "step_000000000002"));
  EXPECT_THAT(to_text(changed), HasSubstr("unless they were trained between"));
  EXPECT_EQ(to_json(same)["changed"].size(), 0u);
  EXPECT_EQ(to_text(compare_frozen_tensors({one})), "") << "nobody to compare with";
}

}  // namespace
}  // namespace zero::launcher::verify_test

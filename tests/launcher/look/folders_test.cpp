#include "launcher/look/folders.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::folders_test {
namespace {

namespace fs = std::filesystem;
using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::StoredTensor;
using checkpoint::testing::make_tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Folders : public checkpoint::testing::CheckpointTest {
 protected:
  std::string refusal(const std::string& dir) {
    try {
      return "found " + find_folder(dir).path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
  }
};

TEST_F(Folders, ARunMeansItsNewestIntactStep) {
  const auto model = checkpoint::testing::small_model();
  const std::string first = save(model, {.step = 1}), second = save(model, {.step = 2});
  EXPECT_EQ(find_folder(run).path, second);
  EXPECT_EQ(find_folder(first).path, first);
  fs::remove(second + "/manifest.json");
  const FoundFolder found = find_folder(run);
  EXPECT_EQ(found.path, first);
  EXPECT_THAT(found.passed_over, ElementsAre(HasSubstr(second)));
  // Who names a step means that one.
  EXPECT_EQ(find_folder(second).path, second);
}

TEST_F(Folders, ACheckpointUnderAnotherName) {
  fs::rename(save(checkpoint::testing::small_model()), run + "/best");
  EXPECT_EQ(find_folder(run + "/best").path, run + "/best");
}

TEST_F(Folders, ARunIsOneWhateverElseLiesInIt) {
  checkpoint::testing::write_file(run + "/model.safetensors", "");
  EXPECT_EQ(find_folder(run).path, run);
  const std::string step = save(checkpoint::testing::small_model());
  EXPECT_EQ(find_folder(run).path, step);
}

TEST_F(Folders, WhatIsNoneIsRefused) {
  EXPECT_THAT(refusal(run + "/none"),
              HasSubstr("DIR names a folder that does not exist"));
  EXPECT_THAT(refusal(run), HasSubstr("DIR names a folder without checkpoints"));
  checkpoint::testing::write_file(run + "/file", "");
  EXPECT_THAT(refusal(run + "/file"), HasSubstr("a model's folder of Hugging Face"));
}

Manifest some_tensors() {
  Manifest manifest;
  for (const auto& [kind, fqn] :
       std::vector<std::pair<Kind, std::string>>{{Kind::kParam, "a.bias"},
                                                 {Kind::kParam, "a.weight"},
                                                 {Kind::kExpAvg, "a.weight"},
                                                 {Kind::kBuffer, "mask"},
                                                 {Kind::kUser, "notes"}})
    manifest.tensors.push_back({kind, fqn, DType::kFp32, {1}});
  manifest.aliases = {{"head.weight", "a.weight"}};
  return manifest;
}

std::vector<std::string> selected(const std::vector<std::string>& globs,
                                  bool with_state) {
  const Manifest manifest = some_tensors();
  std::vector<std::string> names;
  for (const StoredTensor* tensor : selected_tensors(manifest, {globs, with_state}))
    names.push_back(std::string(name_of(tensor->kind)) + "/" + tensor->fqn);
  return names;
}

TEST(Select, StateIsLeftOutUnlessAskedFor) {
  EXPECT_THAT(selected({}, false),
              ElementsAre("params/a.bias", "params/a.weight", "buffers/mask"));
  EXPECT_EQ(selected({}, true).size(), 5u);
}

TEST(Select, AnAliasStandsForItsParameter) {
  EXPECT_THAT(selected({"head*"}, false), ElementsAre("params/a.weight"));
  EXPECT_THAT(selected({"head*", "no*"}, true),
              ElementsAre("params/a.weight", "exp_avg/a.weight", "user/notes"));
}

TEST(Select, AnAliasMeansNoBufferOfThatName) {
  Manifest manifest;
  manifest.tensors = {{Kind::kParam, "w", DType::kFp32, {1}},
                      {Kind::kBuffer, "w", DType::kFp32, {1}}};
  manifest.aliases = {{"head", "w"}};
  EXPECT_EQ(selected_tensors(manifest, {{"head"}, false}).size(), 1u);
  EXPECT_EQ(selected_tensors(manifest, {{"w"}, false}).size(), 2u);
}

std::string lost(const std::vector<std::string>& globs, bool with_state = false) {
  const Manifest manifest = some_tensors();
  try {
    require_matches({&manifest}, {globs, with_state});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.problem();
  }
}

TEST(RequireMatches, EachGlobWithTheNearestName) {
  EXPECT_EQ(lost({"a.*", "head.weight", "mask"}), "");
  EXPECT_EQ(lost({"a.weigth"}), "a.weigth matches no tensor; nearest: a.weight");
  EXPECT_EQ(lost({"***a.weigth***"}),
            "***a.weigth*** matches no tensor; nearest: a.weight");
  EXPECT_EQ(lost({"*.mlp.bais.*"}),
            "*.mlp.bais.* matches no tensor; nearest: bias, as in a.bias");
  EXPECT_EQ(lost({"xyz*", "mask", "q"}),
            "xyz* matches no tensor\n  - q matches no tensor");
}

TEST(RequireMatches, StateCountsWhereItIsAskedFor) {
  EXPECT_NE(lost({"notes"}), "");
  EXPECT_EQ(lost({"notes"}, true), "");
}

}  // namespace
}  // namespace zero::launcher::folders_test

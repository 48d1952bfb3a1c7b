#include "launcher/look/diff.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::diff_test {
namespace {

namespace fs = std::filesystem;
using checkpoint::Kind;
using checkpoint::testing::small_model;
using checkpoint::testing::TestModel;
using checkpoint::testing::TestTensor;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TestTensor floats(const std::string& fqn, const std::vector<float>& values) {
  TestTensor tensor{Kind::kParam, fqn, DType::kFp32, {std::ssize(values)}, {}};
  tensor.bytes.resize(4 * values.size());
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// Two runs, "a" and "b", and what is told of them.
class Diff : public checkpoint::testing::CheckpointTest {
 protected:
  // The fixture saves into one folder; its step is moved out of it.
  std::string put(const std::string& name, const TestModel& model,
                  const SaveOptions& options = {}) {
    const std::string to = run + "/../" + name;
    fs::create_directory(to);
    fs::rename(save(model, options), to + "/step_000000000100");
    return to;
  }
  std::string put_safetensors(const std::string& name,
                              const std::vector<checkpoint::SafeTensorSpec>& specs) {
    const std::string to = run + "/../" + name;
    fs::create_directory(to);
    checkpoint::SafetensorsWriter writer(to, specs, 1 << 20);
    for (const auto& spec : specs) writer.write(spec.name, 0, std::vector<float>{1, 2});
    writer.finish();
    return to;
  }
  FolderDiff compare(const Selection& options = {}) {
    return diff_folders(run + "/../a", run + "/../b", options, models_);
  }
  ModelFamilies models_;

  static json tensor(const FolderDiff& diff, const std::string& fqn) {
    const json all = json::parse(to_line(diff));
    for (const json& each : all["tensors"])
      if (each["fqn"] == fqn) return each;
    return nullptr;
  }
};

TEST_F(Diff, TheSameModelOfOtherRanksIsEqual) {
  put("a", small_model(), {.world_size = 1});
  put("b", small_model(), {.world_size = 3});
  const FolderDiff diff = compare({.state = true});
  EXPECT_TRUE(diff.are_equal());
  EXPECT_EQ(diff.tensors.size(), small_model().size());
  EXPECT_THAT(to_page(diff), HasSubstr("23 tensor(s): 23 equal\n"));
}

TEST_F(Diff, NewerStepsThatAreDamagedAreTold) {
  put("b", {floats("w", {1})});
  fs::create_directory(put("a", {floats("w", {1})}) + "/step_000000000200");
  const FolderDiff diff = compare();
  EXPECT_THAT(diff.passed_over, ElementsAre(HasSubstr("step_000000000200")));
  EXPECT_THAT(to_page(diff), HasSubstr("newer, but damaged: "));
}

TEST_F(Diff, OneBitOfTheLastValueIsADifference) {
  TestModel model = {floats("w", std::vector<float>(5'000'000, 2))};
  put("a", model, {.world_size = 2});
  model[0].bytes[model[0].bytes.size() - 4] ^= 1;
  put("b", model, {.world_size = 3});
  const FolderDiff diff = compare();
  EXPECT_FALSE(diff.are_equal());
  const json w = tensor(diff, "w");
  EXPECT_EQ(w["verdict"], "differs");
  EXPECT_EQ(w["different"], 1);
  EXPECT_EQ(w["of"], 5'000'000);
  EXPECT_NEAR(w["largest"], 2.4e-7, 1e-8);
  EXPECT_NEAR(w["relative"], 1.2e-7, 1e-8);
}

TEST_F(Diff, WhatIsNotFiniteIsADifferenceWithoutADistance) {
  put("a", {floats("w", {1, NAN})});
  put("b", {floats("w", {1, 2})});
  const json w = tensor(compare(), "w");
  EXPECT_EQ(w["verdict"], "differs");
  EXPECT_EQ(w["not_finite"], 1);
  EXPECT_EQ(w["largest"], 0);
}

TEST_F(Diff, WhatOneSideLacksIsNamed) {
  put("a", {floats("same", {1}), floats("mine", {2})});
  put("b", {floats("same", {1}), floats("yours", {2})});
  const FolderDiff diff = compare();
  EXPECT_EQ(tensor(diff, "mine")["verdict"], "only in A");
  EXPECT_EQ(tensor(diff, "yours")["verdict"], "only in B");
  EXPECT_THAT(to_page(diff),
              HasSubstr("3 tensor(s): 1 equal, 1 only in A, 1 only in B\n"));
  EXPECT_FALSE(diff.are_equal());
}

TEST_F(Diff, ShapesAndTypesCount) {
  TestModel model = {floats("w", {1, 2, 3, 4}), floats("v", {1, 2})};
  put("a", model);
  model[0].shape = {2, 2};
  put("b", model);
  const json w = tensor(compare(), "w");
  EXPECT_EQ(w["verdict"], "other shape");
  EXPECT_EQ(w["b"], "fp32 (2, 2)");
  EXPECT_FALSE(w.contains("largest"));
  fs::remove_all(run + "/../b");
  put_safetensors("b", {{"v", DType::kBf16, {2}}});
  const json v = tensor(compare(), "v");
  EXPECT_EQ(v["verdict"], "other type");
  EXPECT_EQ(v["largest"], 0);
}

// A checkpoint stores a tied weight once, a folder of Hugging Face under whichever names.
TEST_F(Diff, TiedWeightsAreFoundByEitherName) {
  put("a", {floats("wte", {1, 2})}, {.aliases = {{"head", "wte"}}});
  put_safetensors("b", {{"head", DType::kFp32, {2}}});
  EXPECT_EQ(tensor(compare(), "head")["verdict"], "equal");
  fs::remove_all(run + "/../b");
  put_safetensors("b", {{"head", DType::kFp32, {2}}, {"wte", DType::kFp32, {2}}});
  EXPECT_TRUE(compare().are_equal());
  EXPECT_EQ(compare().tensors.size(), 2u);
  EXPECT_EQ(compare({.globs = {"head"}}).tensors.size(), 2u);
}

// As the first folders of GPT-2 were written.
TEST_F(Diff, NamesMayLackTheirPrefixInAFolderOfHuggingFace) {
  put("a", {floats("head", {1, 2}), floats("model.w", {1, 2})});
  const std::string b =
      put_safetensors("b", {{"head", DType::kFp32, {2}}, {"w", DType::kFp32, {2}}});
  EXPECT_EQ(tensor(compare(), "w")["verdict"], "only in B");
  checkpoint::testing::write_file(b + "/config.json", R"({"model_type": "m"})");
  ModelFamily family;
  family.name = "m";
  family.classes = {{.model_type = "m", .architecture = "M", .prefix = "model."}};
  family.check = [](const ModelShape&) {};
  models_ = {family};
  EXPECT_TRUE(compare().are_equal()) << to_page(compare());
  EXPECT_EQ(compare().tensors.size(), 2u);
  EXPECT_EQ(compare({.globs = {"w"}}).tensors[0].fqn, "model.w");
}

TEST_F(Diff, GlobsAndStateSayWhatIsCompared) {
  put("a", small_model(1));
  put("b", small_model(2));
  EXPECT_EQ(tensor(compare(), "notes"), nullptr);
  EXPECT_EQ(compare({.globs = {"blocks.*"}}).tensors.size(), 3u);
  EXPECT_EQ(compare({.globs = {"blocks.*"}, .state = true}).tensors.size(), 9u);
  EXPECT_EQ(compare({.globs = {"empty"}}).tensors.size(), 1u);
  EXPECT_TRUE(compare({.globs = {"empty"}}).are_equal());
  EXPECT_THROW(compare({.globs = {"blocs.*"}}), Error);
}

TEST_F(Diff, DamageIsNoDifference) {
  put("a", small_model());
  const std::string path = put("b", small_model()) + "/step_000000000100";
  const std::string shard = path + "/" + checkpoint::shard_file(1, 2);
  std::string bytes = checkpoint::testing::read_file(shard);
  bytes[bytes.size() - 1] ^= 1;
  checkpoint::testing::write_file(shard, bytes);
  EXPECT_THROW(compare({.state = true}), checkpoint::CheckpointError);
}

}  // namespace
}  // namespace zero::launcher::diff_test

#include "launcher/look/inspect.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "launcher/run/saved_run.h"
#include "tests/checkpoint/support.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::inspect_test {
namespace {

using checkpoint::CheckpointError;
using checkpoint::Kind;
using checkpoint::testing::make_tensor;
using checkpoint::testing::TestModel;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Inspect : public checkpoint::testing::CheckpointTest {
 protected:
  static json object_of(const Inspection& inspection) {
    return json::parse(to_line(inspection));
  }
  Inspection look(const Selection& selection = {}, bool reads_values = false) {
    return inspect_folder(run, selection, reads_values, some_models());
  }
};

TestModel model_of(size_t num_tensors) {
  TestModel model;
  for (size_t i = 0; i < num_tensors; ++i)
    model.push_back(make_tensor(Kind::kParam, "layer." + std::to_string(i) + ".weight",
                                DType::kFp32, {2, 3}));
  return model;
}

TEST_F(Inspect, TheHeaderTellsWhatAnEngineNeedsBesideTensors) {
  SavedRun saved;
  saved.model = {{"n_layer", 3}, {"n_embd", 64}, {"n_head", 4}, {"n_positions", 32}};
  saved.vocab = 257;
  Progress progress;
  progress.num_batches = 12;
  progress.num_samples = 1234;
  progress.num_bad = 2;
  save(checkpoint::testing::small_model(), {.step = 7,
                                            .world_size = 3,
                                            .aliases = {{"other", "100% größe %b"}},
                                            .config = to_text(saved),
                                            .position = to_text(progress),
                                            .engine = {{"loss_scale", 1024}}});
  const std::string page = to_page(look());
  EXPECT_THAT(page, HasSubstr("checkpoint of step 7 by 3 rank(s), written 20"));
  EXPECT_THAT(page, HasSubstr("gpt2: 3 layers, dim 64, 4 heads, vocabulary 257"));
  EXPECT_THAT(page,
              HasSubstr("1,234 samples in 12 batches were taken, 2 of these skipped"));
  EXPECT_THAT(page, HasSubstr("engine   loss_scale 1024"));
  EXPECT_THAT(page, HasSubstr("other is 100% größe %b"));
  EXPECT_THAT(page, HasSubstr("mask"));
  const json object = object_of(look());
  EXPECT_EQ(object["step"], 7);
  EXPECT_EQ(object["ranks"], 3);
  EXPECT_EQ(object["files"], 5);
  EXPECT_EQ(object["position"]["num_batches"], 12);
  EXPECT_EQ(object["engine"]["loss_scale"], 1024);
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(object["folder"]))
    bytes += static_cast<int64_t>(file.file_size());
  EXPECT_EQ(object["bytes"], bytes);
}

TEST_F(Inspect, StateIsCountedAndListedWhenAskedFor) {
  TestModel model = model_of(2);
  for (size_t i = 0; i < 2; ++i) {
    model.push_back(model[i]);
    model.back().kind = Kind::kExpAvg;
  }
  save(model);
  const json without = object_of(look()), with = object_of(look({.state = true}));
  EXPECT_EQ(without["kinds"], (json{{"params", 2}, {"exp_avg", 2}}));
  EXPECT_EQ(without["parameters"], 12);
  EXPECT_EQ(without["tensors"].size(), 2u);
  EXPECT_EQ(with["tensors"].size(), 4u);
  EXPECT_EQ(with["tensors"][2]["kind"], "exp_avg");
}

TEST_F(Inspect, NormsAreThoseOfTheWholeTensor) {
  std::vector<float> values(6'000'000);  // more than is read at once
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.0f : -2.0f;
  const char* bytes = reinterpret_cast<const char*>(values.data());
  save({{Kind::kParam,
         "w",
         DType::kFp32,
         {2000, 3000},
         {bytes, bytes + 4 * values.size()}}},
       {.world_size = 3});
  EXPECT_FALSE(object_of(look())["tensors"][0].contains("norm"));
  const json tensor = object_of(look({}, true))["tensors"][0];
  EXPECT_NEAR(tensor["norm"], std::sqrt(5.0 * 3e6), 1e-9);
  EXPECT_EQ(tensor["mean"], -0.5);
  EXPECT_EQ(tensor["min"], -2);
  EXPECT_EQ(tensor["max"], 1);
  EXPECT_EQ(tensor["nan"], 0);
}

TEST_F(Inspect, WhereNothingIsFiniteNothingIsLeast) {
  const float nan = NAN;
  const char* bytes = reinterpret_cast<const char*>(&nan);
  save({{Kind::kParam, "w", DType::kFp32, {1}, {bytes, bytes + 4}}});
  const json tensor = object_of(look({}, true))["tensors"][0];
  for (const char* key : {"min", "max", "mean"})
    EXPECT_TRUE(tensor[key].is_null()) << key;
  EXPECT_EQ(tensor["nan"], 1);
}

TEST_F(Inspect, ValuesAreReadForNormsAlone) {
  const std::string path = save(model_of(1), {.world_size = 1});
  const std::string shard = path + "/" + checkpoint::shard_file(0, 1);
  checkpoint::Reader reader(path);
  std::string bytes = checkpoint::testing::read_file(shard);
  const int64_t at = reader.manifest().tensors[0].pieces[0].offset;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  checkpoint::testing::write_file(shard, bytes);
  EXPECT_EQ(look().tensors.size(), 1u);
  EXPECT_THROW(look({}, true), CheckpointError);
}

TEST_F(Inspect, AModelOfTenThousandTensors) {
  save(model_of(10000), {.world_size = 1});
  const Inspection inspection = look({.globs = {"layer.77*"}});
  EXPECT_EQ(inspection.tensors.size(), 111u);
  EXPECT_EQ(inspection.num_parameters, 60000);
  EXPECT_THAT(to_page(inspection), Not(HasSubstr("layer.5.weight")));
  EXPECT_EQ(object_of(look())["tensors"].size(), 10000u);
}

TEST_F(Inspect, AnyProgramsCheckpointAndAnySafetensors) {
  save(model_of(1), {.config = "[1]", .position = "null"});
  const Inspection theirs = look();
  EXPECT_EQ(theirs.model, "");
  EXPECT_THAT(to_page(theirs), Not(HasSubstr("samples")));
  std::filesystem::remove_all(theirs.path);
  checkpoint::SafetensorsWriter writer(run, {{"x", DType::kBf16, {2}}}, 1 << 20);
  writer.write("x", 0, std::vector<float>{1, 2});
  writer.finish();
  const Inspection foreign = look({}, true);
  EXPECT_FALSE(foreign.is_checkpoint);
  EXPECT_THAT(foreign.notes,
              ::testing::ElementsAre("it holds neither checkpoints nor a config.json"));
  EXPECT_EQ(object_of(foreign)["format"], "safetensors");
  EXPECT_EQ(object_of(foreign)["tensors"][0]["max"], 2);
}

}  // namespace
}  // namespace zero::launcher::inspect_test

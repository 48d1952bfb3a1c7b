#include "checkpoint/tensor_folder.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "checkpoint/safetensors_writer.h"
#include "support.h"

namespace zero::checkpoint::testing::tensor_folder_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFolderTest : public CheckpointTest {
 protected:
  // "b" of fp32 and "a" of bf16, 0 1 2 ... in each, in a file of its own.
  void write_safetensors() {
    SafetensorsWriter writer(run, {{"b", DType::kFp32, {4}}, {"a", DType::kBf16, {2, 2}}},
                             1);
    const std::vector<float> values = {0, 1, 2, 3};
    writer.write("b", 0, values);
    writer.write("a", 0, values);
    writer.finish();
  }
};

TEST_F(TensorFolderTest, ACheckpointIsReadWhateverItsWorldSize) {
  const TestModel model = small_model();
  TensorFolder folder(save(model, {.world_size = 3}));
  EXPECT_TRUE(folder.is_checkpoint());
  ASSERT_EQ(folder.files().size(), 4u);
  EXPECT_EQ(folder.files()[1], run + "/step_000000000100/" + shard_file(0, 3));
  for (const auto& tensor : model) {
    const StoredTensor& stored = *folder.manifest().find(tensor.kind, tensor.fqn);
    std::vector<char> bytes(tensor.bytes.size());
    folder.read(stored, 0, stored.numel(), bytes.data());
    EXPECT_EQ(bytes, tensor.bytes) << tensor.fqn;
  }
}

// As h5py's users and cp make copies.
TEST_F(TensorFolderTest, ACheckpointIsOneUnderAnyName) {
  std::filesystem::rename(save(small_model()), run + "/best");
  EXPECT_TRUE(TensorFolder(run + "/best").is_checkpoint());
}

TEST_F(TensorFolderTest, AStepThatWasNeverCompletedIsNoFolderOfSafetensors) {
  const std::string step = run + "/step_000000000009";
  std::filesystem::create_directory(step);
  EXPECT_THAT(error_of([&] { TensorFolder folder(step); }),
              HasSubstr("the checkpoint was never completed"));
  EXPECT_THAT(error_of([&] { TensorFolder folder(run); }),
              HasSubstr("has no model.safetensors"));
}

TEST_F(TensorFolderTest, SafetensorsAreParametersSortedByName) {
  write_safetensors();
  TensorFolder folder(run);
  EXPECT_FALSE(folder.is_checkpoint());
  EXPECT_THAT(folder.files(), ElementsAre(run + "/model-00001-of-00002.safetensors",
                                          run + "/model-00002-of-00002.safetensors"));
  const auto& tensors = folder.manifest().tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].fqn, "a");
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(tensors[0].kind, Kind::kParam);
  EXPECT_EQ(folder.manifest().find(Kind::kParam, "b"), &tensors[1]);
}

TEST_F(TensorFolderTest, SafetensorsAreReadAsTheyAreStored) {
  write_safetensors();
  TensorFolder folder(run);
  uint16_t halves[2];
  folder.read(folder.manifest().tensors[0], 1, 2, halves);
  EXPECT_THAT(halves, ElementsAre(0x3f80, 0x4000));
  float floats[2];
  folder.read(folder.manifest().tensors[1], 2, 2, floats);
  EXPECT_THAT(floats, ElementsAre(2, 3));
  EXPECT_THAT(error_of([&] { folder.read(folder.manifest().tensors[1], 3, 2, floats); }),
              HasSubstr("b: has 4 elements, 2 were wanted from 3"));
}

}  // namespace
}  // namespace zero::checkpoint::testing::tensor_folder_test

#include "launcher/huggingface/copy_weights.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "checkpoint/safetensors_folder.h"
#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::copy_weights_test {
namespace {

class CopyWeights : public checkpoint::testing::CheckpointTest {
 protected:
  // What a checkpoint's one value is in a model's folder of this type.
  float copied(float value, DType dtype) {
    checkpoint::testing::TestTensor tensor{
        checkpoint::Kind::kParam, "w", DType::kFp32, {1}, std::vector<char>(4)};
    std::memcpy(tensor.bytes.data(), &value, sizeof(value));
    const HeldTensors held({save({tensor}, {.step = ++step_, .world_size = 1})});
    const std::string to = run + "_" + std::to_string(step_);
    std::filesystem::create_directory(to);
    checkpoint::SafetensorsWriter writer(to, {{"m.w", dtype, {1}}}, INT64_MAX);
    MergedWeights none(held, {});
    const auto names = [](const std::string& fqn) { return std::vector{"m." + fqn}; };
    copy_weights(held.of_kind(checkpoint::Kind::kParam), none, names, dtype, writer);
    writer.finish();
    std::vector<float> out(1);
    checkpoint::SafetensorsFolder(to).read("m.w", 0, out);
    return out[0];
  }

 private:
  int64_t step_ = 0;
};

TEST_F(CopyWeights, WhatWouldBeInfiniteInFp16IsRefused) {
  EXPECT_EQ(copied(65519, DType::kFp16), 65504);
  EXPECT_EQ(copied(-65519, DType::kFp16), -65504);
  for (const float large : {65520.F, -65520.F}) {
    try {
      copied(large, DType::kFp16);
      FAIL() << large;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(error.where(), "w");
      EXPECT_THAT(error.cure(), testing::HasSubstr("--dtype bf16"));
    }
  }
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(copied(kInfinite, DType::kFp16), kInfinite) << "it is what the model has";
  EXPECT_EQ(copied(65520, DType::kBf16), 65536);
}

}  // namespace
}  // namespace zero::launcher::copy_weights_test

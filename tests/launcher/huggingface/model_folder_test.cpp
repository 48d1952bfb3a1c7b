#include "launcher/huggingface/model_folder.h"

#include <gtest/gtest.h>

#include "zero/errors.h"

namespace zero::launcher::model_folder_test {
namespace {

TEST(ModelFolder, QuantizedWeightsAreRefusedByTheirKey) {
  ModelFamily family;
  family.classes = {{.model_type = "one", .architecture = "OneForCausalLM"}};
  family.check = [](const ModelShape&) {};
  const auto complaint = [&](const std::string& key) -> std::string {
    try {
      judge_config({{"model_type", "one"}, {key, {{"bits", 4}}}}, "folder", {family});
      return "";
    } catch (const Error& error) {
      return error.problem();
    }
  };
  EXPECT_EQ(complaint("other"), "");
  for (const std::string key : {"quantization_config", "compression_config"})
    EXPECT_EQ(complaint(key), key + ": its weights are quantized");
}

}  // namespace
}  // namespace zero::launcher::model_folder_test

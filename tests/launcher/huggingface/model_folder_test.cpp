#include "launcher/huggingface/model_folder.h"

#include <gmock/gmock.h>

#include "tests/launcher/settings/configs.h"
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

// In all formats that are in use.
TEST(ModelFolder, EverySmallFileIsCopiedByItsName) {
  const std::vector<std::string> small = {"generation_config.json",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "special_tokens_map.json",
                                          "added_tokens.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "tokenizer.model",
                                          "chat_template.jinja",
                                          "chat_template.json"};
  const TempFolder folder;
  for (const std::string& name : small) folder.write(name, name);
  for (const char* other : {"config.json", "model.safetensors", "README.md"})
    folder.write(other, "");
  EXPECT_THAT(companions_in(folder.path("")), testing::UnorderedElementsAreArray(small));
  copy_files(folder.path(""), small, folder.path("to"));
  for (const std::string& name : small) EXPECT_EQ(folder.read("to/" + name), name);
}

}  // namespace
}  // namespace zero::launcher::model_folder_test

#include "launcher/huggingface/generation_config.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/checkpoint/support.h"

namespace zero::launcher::generation_config_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EndsOfTexts : public checkpoint::testing::CheckpointTest {
 protected:
  EndsOfTexts() { std::filesystem::create_directories(run); }
  void write(const std::string& name, const std::string& text) {
    checkpoint::testing::write_file(run + "/" + name, text);
  }
};

TEST_F(EndsOfTexts, AreThoseOfConfigJsonWhereTheOtherFileNamesNone) {
  EXPECT_THAT(read_generation_config(run).ends, IsEmpty());
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(7));
  write("generation_config.json", R"({"top_p": 0.5})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [3, 5]})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(3, 5));
}

}  // namespace
}  // namespace zero::launcher::generation_config_test

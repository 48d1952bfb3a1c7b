#include "launcher/settings/origins.h"

#include <gmock/gmock.h>

#include "launcher/settings/config.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::origins_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Origins, TheLastSourceOfEachSettingIsNamed) {
  const TempFolder folder;
  const std::string file = folder.write("a.toml", "lr = 0.1\nmicro_batch = 2\n");
  const CommandLine line =
      read_command_line({"--config", file, "--betas", "0.8,0.9"}, "train");
  const RawValues given = given_values(line, {"ZERO_LR=0.2", "HOME=/root"});
  Settings earlier;
  earlier.data = {"/data/a", "/data/b"};
  earlier.lr = 0.3;
  earlier.dropout = 0.25;
  earlier.micro_batch = 16;
  const std::string text = origins_text(given, earlier, "runs/a/step_1");
  EXPECT_THAT(text, HasSubstr("given: --betas 0.8 0.9, ZERO_LR 0.2, " + file +
                              " line 2: micro_batch 2\n"));
  EXPECT_THAT(text, HasSubstr("of runs/a/step_1: data /data/a /data/b, dropout 0.25, "
                              "dtype fp32, global_batch 32, model gpt2, "));
  EXPECT_THAT(text, Not(HasSubstr("lr 0.3")));
  EXPECT_THAT(text, Not(HasSubstr("micro_batch 16")));
  EXPECT_THAT(text, Not(HasSubstr("clip")));  // a default
}

}  // namespace
}  // namespace zero::launcher::origins_test

#include <gmock/gmock.h>

#include "launcher/bench/benches.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"

namespace zero::launcher::options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BenchOptions options_of(const std::string& kind, const std::vector<std::string>& flags) {
  CommandLine line = read_command_line(flags);
  line.kind = kind;
  return read_bench_options(find_bench_kind(line), line, {}, some_models());
}

std::string bench_complaint(const std::string& kind,
                            const std::vector<std::string>& flags) {
  try {
    options_of(kind, flags);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.problem();
  }
}

TEST(BenchOptions, AreTheKindsOwnUnlessTold) {
  const BenchOptions options = options_of("step", {"--dtype=bf16", "--rounds", "7"});
  EXPECT_EQ(options.rounds, 7);
  EXPECT_EQ(options.settings.dtype, "bf16");
  EXPECT_EQ(options.settings.recompute, "none");
  EXPECT_EQ(options.settings.micro_batch, 4);
  EXPECT_EQ(options_of("checkpoint", {"--size=3MiB"}).size, 3 << 20);
  EXPECT_GT(options_of("adam", {}).size, 0);
}

TEST(BenchOptions, AnUnknownKindHasANearestOne) {
  EXPECT_THAT(bench_complaint("adm", {}), HasSubstr("nearest: adam"));
  EXPECT_THAT(bench_complaint("", {}),
              HasSubstr("allowed: adam, layer, step, init, comm, checkpoint, saves or "
                        "transfer"));
}

TEST(BenchOptions, AllThatIsWrongIsToldAtOnce) {
  EXPECT_THAT(
      bench_complaint("adam", {"--lr=1", "--rounds=0", "--size=many", "--threads=-1"}),
      AllOf(HasSubstr("4 settings"), HasSubstr("bench adam does not use --lr"),
            HasSubstr("rounds is \"0\""), HasSubstr("size is \"many\""),
            HasSubstr("threads is \"-1\"")));
  EXPECT_THAT(bench_complaint("step", {"--size=1GiB"}), HasSubstr("does not use --size"));
  EXPECT_THAT(bench_complaint("comm", {"--config=run.toml"}),
              HasSubstr("does not use --config"));
  EXPECT_THAT(bench_complaint("step", {"--preset=gpt3"}), HasSubstr("preset"));
}

TEST(BenchOptions, BelongToBenchAlone) {
  const CommandLine line = read_command_line({"--rounds=3", "--size=1MiB"});
  EXPECT_EQ(check_flags(line, "bench").size(), 0u);
  EXPECT_EQ(check_flags(line, "train").size(), 2u);
}

TEST(BenchOptions, EachKindUsesSettingsThatThereAre) {
  const std::string page = bench_help();
  for (const BenchKind& kind : bench_kinds()) {
    EXPECT_THAT(page, HasSubstr("\n" + kind.name + ": "));
    for (const std::string& key : kind.settings) EXPECT_NE(find_setting(key), nullptr);
  }
}

}  // namespace
}  // namespace zero::launcher::options_test

#include "launcher/run/dump_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::dump_state_test {
namespace {

TEST(InitReport, TellsOfInfiniteValuesWhereThereAreSome) {
  const TempFolder folder;
  write_init_report(folder.path("a.json"),
                    {{.fqn = "table"}, {.fqn = "mask", .num_infinite = 1}});
  const auto list = nlohmann::json::parse(folder.read("a.json"));
  EXPECT_FALSE(list[0].contains("infinite"));
  EXPECT_EQ(list[1].value("infinite", 0), 1);
}

}  // namespace
}  // namespace zero::launcher::dump_state_test

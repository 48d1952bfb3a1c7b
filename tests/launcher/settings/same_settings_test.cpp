#include "launcher/settings/same_settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace zero::launcher::same_settings_test {
namespace {

std::string lines_with(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  return lines_of_settings(settings).text();
}

std::string defaults() { return lines_of_settings({}).text(); }

TEST(SameSettings, AreThoseThatMakeARun) {
  const std::vector<std::function<void(Settings&)>> changes = {
      [](Settings& s) { s.shuffle = false; },     [](Settings& s) { s.dropout = 0.3; },
      [](Settings& s) {
        s.betas = {0.9, 0.99}; }, [](Settings& s) { s.eval_every = 5; },
      [](Settings& s) { s.save_at_end = false; }, [](Settings& s) { s.device = "cpu"; },
      [](Settings& s) { s.hang_timeout = 5; }};
  for (size_t i = 0; i < changes.size(); ++i)
    EXPECT_NE(lines_with(changes[i]), defaults()) << i;
}

TEST(SameSettings, AHostMayHaveItsOwnThreadsMemoryAndTraces) {
  EXPECT_EQ(lines_with([](Settings& s) {
              s.threads = 3;
              s.adam_threads = 4;
              s.bind = false;
              s.host_memory = s.device_memory = 1 << 30;
              s.python = "python";
              s.token_cache = "tokens";
              s.trace = {1, 2};
              s.trace_comm = "trace";
              s.chaos = 5;
              s.delay = {"adam=1"};
            }),
            defaults());
}

TEST(SameSettings, Rank0DecidesHowARunIsWatchedAndEnded) {
  EXPECT_EQ(lines_with([](Settings& s) {
              s.resume = "never";
              s.time_limit = 60;
              s.log_every = 7;
              s.keep = 2;
            }),
            defaults());
}

TEST(SameSettings, OfPlacesOnlyWhetherTheyAreGivenCounts) {
  const auto start = [](const std::string& folder) {
    return lines_with([&](Settings& s) { s.init_from = folder; });
  };
  EXPECT_EQ(start("/here"), start("/there"));
  EXPECT_NE(start("/here"), defaults());
  const auto evaluated = [](const std::string& path) {
    return lines_with([&](Settings& s) { s.eval_data = {path}; });
  };
  EXPECT_EQ(evaluated("/here"), evaluated("/there"));
  EXPECT_NE(evaluated("/here"), defaults());
}

}  // namespace
}  // namespace zero::launcher::same_settings_test

#include "launcher/settings/same_settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "launcher/settings/setting_table.h"

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
              s.ranks = 2;
              s.hosts = "hosts";
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
              s.take_over = true;
              s.time_limit = 60;
              s.metrics = {"csv"};
              s.log_every = 7;
              s.keep = 3;
              s.keep_every = 5;
              s.on_save_error = "continue";
            }),
            defaults());
}

TEST(SameSettings, OfPlacesOnlyWhetherTheyAreGivenCounts) {
  for (const char* key :
       {"data", "eval_data", "init_from", "adapter", "tokenizer", "out", "init_report",
        "dump_state", "eval_choices", "sample_prompts"}) {
    const auto with = [&](const std::string& path) {
      return lines_with([&](Settings& s) { find_setting(key)->assign(s, {path}); });
    };
    EXPECT_EQ(with("/here"), with("/there")) << key;
    EXPECT_NE(with("/here"), defaults()) << key;
  }
}

}  // namespace
}  // namespace zero::launcher::same_settings_test

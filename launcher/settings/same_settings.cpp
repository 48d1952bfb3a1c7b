#include "launcher/settings/same_settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {
namespace {

constexpr std::string_view kOwnOfHosts[] = {
    "ranks",       "hosts",         "threads", "adam_threads", "bind",
    "host_memory", "device_memory", "python",  "token_cache",  "trace",
    "trace_comm",  "delay",         "chaos"};

// Rank 0 decides, whatever the others were told: mpirun may have passed no variables on.
constexpr std::string_view kOfRank0[] = {"resume",     "take_over",    "time_limit",
                                         "metrics",    "log_every",    "keep",
                                         "keep_every", "on_save_error"};

constexpr std::string_view kPlaces[] = {
    "data", "eval_data",   "init_from",  "adapter",      "tokenizer",
    "out",  "init_report", "dump_state", "eval_choices", "sample_prompts"};

bool is_among(std::span<const std::string_view> keys, const std::string& key) {
  return std::ranges::count(keys, key) > 0;
}

}  // namespace

Lines lines_of_settings(const Settings& settings) {
  const Settings none;
  Lines lines;
  for (const Setting& setting : setting_table()) {
    if (is_among(kOwnOfHosts, setting.key) || is_among(kOfRank0, setting.key)) continue;
    const nlohmann::json value = setting.value(settings);
    if (is_among(kPlaces, setting.key))
      lines.add(setting.key, value != setting.value(none));
    else
      lines.add(setting.key, value.dump());
  }
  return lines;
}

void require_same_settings(const Lines& lines, Ranks& ranks) {
  require_same_lines(lines, "ranks were given different settings",
                     "the same flags, ZERO_ variables and --config on every host, and an "
                     "--out that all share; only files, threads, memory and traces may "
                     "be a host's own",
                     ranks);
}

}  // namespace zero::launcher

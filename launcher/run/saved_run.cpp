#include "launcher/run/saved_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// Reads fields out of JSON that `text` must be.
template <class Read>
auto parse(const std::string& text, const std::string& where, Read read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception&) {
    throw Error(ExitCode::kCheckpoint, "this is no checkpoint of zero_launch train",
                where, "a checkpoint that zero_launch train has written");
  }
}

// Integers that later arithmetic can bear, whoever wrote them.
int64_t count_in(const json& object, const char* key, int64_t lowest) {
  constexpr int64_t kHighest = int64_t{1} << 48;
  const json& value = object.at(key);
  const bool fits = value.is_number_integer() && value >= lowest && value <= kHighest;
  if (!fits) throw json::other_error::create(501, key, &object);
  return value.get<int64_t>();
}

std::string describe(const DataIdentity& data) {
  return fmt::format("{} tokens with hash {}", data.num_tokens, data.hash);
}

// A rate that falls towards the end of the run is another one when the end moves.
bool follows_steps(const Settings& settings) { return settings.schedule != "constant"; }

bool is_allowed(const ChangedSetting& change, const Settings& now) {
  return std::ranges::find(now.overrides, change.key) != now.overrides.end();
}

std::string explain(const ChangedSetting& change, const std::string& schedule) {
  std::string text =
      fmt::format("{} was {}, is {}", change.key, change.before, change.after);
  if (change.key == "optimizer") text += ", which would start without any state";
  if (change.key == "steps")
    text += fmt::format(": under schedule {} every later learning rate changes with it",
                        schedule);
  return text;
}

}  // namespace

std::string to_text(const SavedRun& run) {
  return json({{"settings", to_json(run.settings)},
               {"data", {{"hash", run.data.hash}, {"tokens", run.data.num_tokens}}},
               {"vocab", run.vocab},
               {"is_text", run.is_text},
               {"threads", run.threads}})
      .dump();
}

SavedRun parse_saved_run(const std::string& text, const std::string& where) {
  return parse(text, where, [&](const json& config) {
    SavedRun run;
    run.settings = settings_from_json(config.at("settings"), where);
    config.at("data").at("hash").get_to(run.data.hash);
    run.data.num_tokens = count_in(config.at("data"), "tokens", 0);
    run.vocab = count_in(config, "vocab", 0);
    config.at("is_text").get_to(run.is_text);
    if (config.contains("threads")) run.threads = count_in(config, "threads", 0);
    return run;
  });
}

std::string to_text(const Progress& progress) {
  return json({{"num_batches", progress.num_batches},
               {"num_samples", progress.num_samples},
               {"num_bad", progress.num_bad},
               {"num_bad_in_a_row", progress.num_bad_in_a_row},
               {"last_evaluation", progress.last_evaluation}})
      .dump();
}

Progress parse_progress(const std::string& text, const std::string& where) {
  return parse(text, where, [](const json& position) {
    Progress progress;
    progress.num_batches = count_in(position, "num_batches", 0);
    progress.num_samples = count_in(position, "num_samples", 0);
    progress.num_bad = count_in(position, "num_bad", 0);
    progress.num_bad_in_a_row = count_in(position, "num_bad_in_a_row", 0);
    progress.last_evaluation = count_in(position, "last_evaluation", -1);
    return progress;
  });
}

std::vector<ChangedSetting> differences(const SavedRun& before, const SavedRun& now) {
  std::vector<ChangedSetting> changes = changed_settings(before.settings, now.settings);
  std::erase_if(changes, [](const ChangedSetting& c) { return c.key == "data"; });
  if (before.data != now.data)
    changes.push_back({"data", describe(before.data), describe(now.data)});
  if (before.settings.steps != now.settings.steps && follows_steps(now.settings)) {
    changes.push_back({"steps", std::to_string(before.settings.steps),
                       std::to_string(now.settings.steps)});
  }
  std::erase_if(changes, [&](const ChangedSetting& change) {
    return is_allowed(change, now.settings);
  });
  return changes;
}

void check_same_run(const SavedRun& before, const SavedRun& now,
                    const std::string& where) {
  const std::vector<ChangedSetting> changes = differences(before, now);
  if (changes.empty()) return;
  std::string text =
      fmt::format("{} setting(s) are not those of the checkpoint:", changes.size());
  std::string keys;
  for (const ChangedSetting& change : changes) {
    text += "\n  - " + explain(change, now.settings.schedule);
    keys += " " + change.key;
  }
  throw Error(ExitCode::kUsage, text, where,
              fmt::format("the old values; or --resume must --override{}, to go on with "
                          "the new ones; or another --out, to start anew",
                          keys));
}

}  // namespace zero::launcher

#include "launcher/run/saved_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/processes.h"
#include "engine/watch/activity.h"
#include "launcher/data/token_source.h"
#include "launcher/process/stop.h"
#include "launcher/run/resume.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/shallow_json.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"
#include "zero/lr_schedule.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// Reads fields out of JSON that `text` must be.
template <class Read>
auto parse(const std::string& text, const std::string& where, Read read) {
  try {
    return read(parse_shallow(text));
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

// All that a position tells.
struct Count {
  const char* key;
  int64_t Progress::*member;
  int64_t lowest;
  bool is_newer = false;  // older ones do not tell
};
constexpr Count kCounts[] = {{"num_batches", &Progress::num_batches, 0},
                             {"num_samples", &Progress::num_samples, 0},
                             {"num_bad", &Progress::num_bad, 0},
                             {"num_bad_in_a_row", &Progress::num_bad_in_a_row, 0},
                             {"last_evaluation", &Progress::last_evaluation, -1},
                             {"last_sample", &Progress::last_sample, -1, true},
                             {"best_step", &Progress::best_step, -1, true}};

std::string describe(const DataIdentity& data) {
  return fmt::format("{} tokens with hash {}", data.num_tokens, data.hash);
}

// A rate that falls towards the end of the run is another one when the end moves. With a
// later end it only rises, which a line tells.
bool ends_earlier(const Settings& before, const Settings& now) {
  return now.schedule != "constant" && now.steps < before.steps;
}

// As it is given on a command line: words of a list of TOML.
std::string given_before(const Setting& setting, const std::string& value) {
  const json list = json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return " " + flag_of(setting) + " " + value;
  if (list.empty()) return " without " + flag_of(setting);
  std::vector<std::string> words;
  for (const json& word : list) words.push_back(word.dump());
  return fmt::format(" {} {}", flag_of(setting),
                     fmt::join(words, setting.is_split_at_commas ? "," : " "));
}

std::string explain(const ChangedSetting& change, const std::string& schedule) {
  const Setting* setting = find_setting(change.key);
  // 0 leaves these to the preset.
  const bool is_size = setting && setting->placeholder == "N" &&
                       (setting->group == "model" || setting->key == "seq_len");
  const bool is_given = !is_size || change.after != "0";
  std::string text = fmt::format("{} was {}, {}", change.key, change.before,
                                 is_given ? "is " + change.after : "is not given now");
  if (change.key == "optimizer") text += ", which would start without any state";
  if (change.key == "steps")
    text += fmt::format(": under schedule {} every later learning rate changes with it",
                        schedule);
  return text;
}

// A line for each.
std::string explain(const std::vector<ChangedSetting>& changes,
                    const std::string& schedule) {
  std::string text;
  for (const ChangedSetting& change : changes)
    text += "\n  - " + explain(change, schedule);
  return text;
}

// The cure that always works.
std::string old_values(const std::vector<ChangedSetting>& changes) {
  std::string old;
  for (const ChangedSetting& change : changes) {
    const Setting* setting = find_setting(change.key);
    if (setting && change.key != "data") old += given_before(*setting, change.before);
  }
  return old.empty() ? "the old data" : "the old values:" + old;
}

// Do the model's tensors follow from it?
bool shapes_model(const ChangedSetting& change) {
  const Setting* setting = find_setting(change.key);
  return setting &&
         (setting->group == "model" || change.key == "seq_len" || change.key == "data");
}

// No override makes the checkpoint's tensors those of another model. Where no setting
// has made it another one, the checkpoint is.
void refuse_other_model(const SavedRun& before, SavedRun now, const std::string& where,
                        const std::vector<std::string>& other_tensors) {
  now.settings.overrides.clear();
  std::vector<ChangedSetting> changes = differences(before, now);
  std::erase_if(changes, [](const ChangedSetting& c) { return !shapes_model(c); });
  if (changes.empty() || other_tensors.empty()) return;
  std::string tensors;
  for (const std::string& line : first_few(other_tensors)) tensors += "\n  " + line;
  throw Error(ExitCode::kUsage,
              "no override makes a checkpoint fit another model:" +
                  explain(changes, now.settings.schedule) + tensors,
              where, old_values(changes) + "; or another --out, to start anew");
}

// Without what belongs to a machine or to tests, and without these.
Settings settings_without(const std::string& more, const Settings& saved) {
  const std::string keys =
      "ranks hosts device threads adam_threads bind hang_timeout host_memory "
      "device_memory ignore_plan offload device_state_fraction grad_sums speculate pin "
      "shard_over "
      "offload_activations tokenizer python "
      "allow_missing allow_extra dump_state trace_comm delay chaos " +
      more;
  json kept = to_json(saved);
  for (const std::string& key : split(keys, ' ')) kept.erase(key);
  return settings_from_json(kept, "the checkpoint");
}

}  // namespace

DataIdentity agree_on_data(const data::Source& source, bool reads_all, Ranks& ranks) {
  Activity::Stretch reading("reading the data");
  if (reads_all) reading.expect(source.num_bytes());
  const std::string hash =
      reads_all ? fmt::format("{:016x}", source.content_hash(sign_unless_stopped))
                : std::string();
  const nlohmann::json mine = {hash, source.num_items()};
  const auto first = nlohmann::json::parse(ranks.broadcast(mine.dump()));
  const DataIdentity identity = {first[0], first[1]};
  if (source.num_items() == identity.num_tokens && (!reads_all || hash == identity.hash))
    return identity;
  const bool is_as_long = source.num_items() == identity.num_tokens;
  throw Error(
      ExitCode::kData,
      fmt::format("the data on host {} are not rank 0's: {}", host_name(),
                  is_as_long ? "as much, with other contents"
                             : fmt::format("{} items there, {} here", identity.num_tokens,
                                           source.num_items())),
      source.where(), "the same files on every host");
}

std::vector<std::string> FrozenSource::fqns() const {
  std::vector<std::string> fqns;
  if (const auto exact = checksums.find("fp32"); exact != checksums.end())
    for (const auto& [fqn, sum] : exact->second) fqns.push_back(fqn);
  return fqns;
}

bool FrozenSource::has(const std::string& fqn) const {
  const auto exact = checksums.find("fp32");
  return exact != checksums.end() && exact->second.contains(fqn);
}

std::string to_text(const SavedRun& run) {
  json text = {{"settings", to_json(run.settings)},
               {"data", {{"hash", run.data.hash}, {"tokens", run.data.num_tokens}}},
               {"vocab", run.vocab},
               {"is_text", run.is_text},
               {"threads", run.threads},
               {"model", run.model},
               {"source", run.source}};
  if (!run.classes.empty()) text["classes"] = run.classes;
  if (!run.frozen.path.empty())
    text["frozen"] = {{"path", run.frozen.path}, {"checksums", run.frozen.checksums}};
  return text.dump();
}

std::string lasting_path(const std::string& path) {
  const std::string lasting = std::filesystem::absolute(path);
  if (is_utf8(lasting)) return lasting;
  throw Error(ExitCode::kUsage,
              "the path of the working folder is not UTF-8, and checkpoints name it",
              lasting, "another working folder, or whole paths");
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
    if (config.contains("model"))
      run.model = config.at("model").get_ref<const json::object_t&>();
    if (config.contains("source")) run.source = config.at("source");
    if (config.contains("classes")) config.at("classes").get_to(run.classes);
    if (config.contains("frozen")) {
      config.at("frozen").at("path").get_to(run.frozen.path);
      config.at("frozen").at("checksums").get_to(run.frozen.checksums);
    }
    return run;
  });
}

// Which adapters there are, the model's config tells.
Settings settings_for_use(const Settings& saved) {
  return settings_without("tf32 lora adapter", saved);
}

Settings settings_to_go_on(const Settings& saved) {
  return settings_without(
      "share_gpu out time_limit resume override take_over trace init_report", saved);
}

const ModelFamily* find_family_of(const ModelFamilies& models, const SavedRun& run) {
  const ModelFamily* family = family_of_config(models, run.model);
  return family ? family : find_family(models, run.settings.model);
}

const ModelFamily& require_family_of(const ModelFamilies& models, const SavedRun& run,
                                     const std::string& where) {
  if (const ModelFamily* family = find_family_of(models, run)) return *family;
  throw Error(ExitCode::kUsage,
              "models of family " + run.settings.model + " are not here", where,
              "a checkpoint of a model that is here");
}

ModelShape shape_of_run(const ModelFamily& family, const SavedRun& run,
                        const Settings& settings) {
  ModelShape shape = run.model.empty() ? new_shape(family, settings)
                                       : shape_of(family, run.model, settings);
  shape.set_vocab(run.vocab);
  return shape;
}

std::string to_text(const Progress& progress) {
  json position;
  for (const Count& count : kCounts) position[count.key] = progress.*count.member;
  position["best_loss"] = progress.best_loss;
  return position.dump();
}

Progress parse_progress(const std::string& text, const std::string& where) {
  return parse(text, where, [](const json& position) {
    Progress progress;
    for (const auto& [key, member, lowest, is_newer] : kCounts) {
      if (position.contains(key) || !is_newer)
        progress.*member = count_in(position, key, lowest);
    }
    if (position.contains("best_loss"))
      position.at("best_loss").get_to(progress.best_loss);
    return progress;
  });
}

std::vector<ChangedSetting> differences(const SavedRun& before, const SavedRun& now) {
  std::vector<ChangedSetting> changes = changed_settings(before.settings, now.settings);
  std::erase_if(changes, [](const ChangedSetting& c) { return c.key == "data"; });
  // A loss scale goes with the type that has one.
  if (now.settings.dtype != "fp16") {
    std::erase_if(changes, [](const ChangedSetting& c) {
      return c.key.starts_with("loss_scale_");
    });
  }
  // What is kept in fp32, or as it is computed with, is not another in any step.
  const std::string &was = before.settings.frozen_dtype, &is = now.settings.frozen_dtype;
  if (is != was && is != "fp32" && is != "auto" && is != now.settings.dtype)
    changes.push_back({"frozen_dtype", was, is});
  if (before.data != now.data)
    changes.push_back({"data", describe(before.data), describe(now.data)});
  if (ends_earlier(before.settings, now.settings)) {
    changes.push_back({"steps", std::to_string(before.settings.steps),
                       std::to_string(now.settings.steps)});
  }
  const auto is_allowed = [&](const std::string& key) {
    const std::vector<std::string>& allowed = now.settings.overrides;
    return std::ranges::find(allowed, key) != allowed.end();
  };
  // Its constants go with an optimizer.
  const bool has_other_rule =
      before.settings.optimizer != now.settings.optimizer && is_allowed("optimizer");
  std::erase_if(changes, [&](const ChangedSetting& change) {
    return is_allowed(change.key) ||
           (has_other_rule && readers_of_constants().contains(change.key));
  });
  return changes;
}

void check_same_run(const SavedRun& before, const SavedRun& now, const std::string& where,
                    const std::vector<std::string>& other_tensors) {
  const std::vector<ChangedSetting> changes = differences(before, now);
  if (changes.empty()) return refuse_other_model(before, now, where, other_tensors);
  std::string keys;
  for (const ChangedSetting& change : changes) keys += " " + change.key;
  std::string cure = old_values(changes);
  if (other_tensors.empty())
    cure += "; or --resume must --override" + keys + ", to go on with the new ones";
  throw Error(
      ExitCode::kUsage,
      fmt::format("{} setting(s) are not those of the checkpoint:", changes.size()) +
          explain(changes, now.settings.schedule),
      where, cure + "; or another --out, to start anew");
}

std::string changed_rate(const Settings& before, const Settings& now, int64_t step) {
  const double was = learning_rate(told_options(before).schedule, step);
  const double is = learning_rate(told_options(now).schedule, step);
  if (now.epochs > 0) return "";  // how many steps they are is not known yet
  if (before.steps == now.steps || was == is) return "";
  return fmt::format(
      "steps was {}, is {}, under schedule {}: the rate of step {} was {:.1e}, is {:.1e}",
      before.steps, now.steps, now.schedule, step + 1, was, is);
}

bool evaluates_as(const Settings& before, const Settings& now) {
  return before.eval_data == now.eval_data && before.eval_samples == now.eval_samples &&
         before.eval_fraction == now.eval_fraction;
}

}  // namespace zero::launcher

#include "launcher/settings/new_run.h"

#include <nlohmann/json.hpp>

namespace zero::launcher {
namespace {

constexpr int64_t kStepsPerWarmupStep = 50;
constexpr double kHeldOut = 0.02;

// Evaluations by the clock would make runs on other numbers of ranks differ.
double usual_fraction(const Settings& settings) {
  return settings.eval_data.empty() && !settings.deterministic ? kHeldOut : 0;
}

bool may_keep_states(const Settings& settings) {
  return settings.device != "cpu" && !settings.share_gpu && settings.optimizer == "adamw";
}

}  // namespace

bool may_speculate(const Settings& settings) {
  return settings.device != "cpu" && settings.offload != "none" &&
         settings.overlap_updates && settings.shard_over == "all";
}

void choose_for_run(Settings& settings, const Settings* going_on,
                    const IsGiven& is_given) {
  if (!is_given("schedule")) settings.schedule = going_on ? going_on->schedule : "cosine";
  if (!is_given("warmup_steps") || settings.warmup_steps == kUsualWarmup)
    settings.warmup_steps = going_on ? going_on->warmup_steps : kUsualWarmup;
  choose_warmup(settings);
  if (!is_given("eval_fraction"))
    settings.eval_fraction =
        going_on ? going_on->eval_fraction : usual_fraction(settings);
  if (going_on && !is_given("separator")) settings.separator = going_on->separator;
  if (going_on && !is_given("chat_date")) settings.chat_date = going_on->chat_date;
  if (!is_given("frozen_dtype")) settings.frozen_dtype = "auto";  // as its weights are
}

void choose_warmup(Settings& settings) {
  if (settings.warmup_steps != kUsualWarmup || settings.steps == 0) return;
  settings.warmup_steps =
      settings.schedule == "constant" ? 0 : settings.steps / kStepsPerWarmupStep;
}

void choose_accumulate(Settings& settings, const Settings* before,
                       const IsGiven& is_given) {
  if (!is_given("accumulate")) settings.accumulate = "auto";
  if (before && settings.accumulate == "auto") settings.accumulate = before->accumulate;
}

void choose_frozen_dtype(Settings& settings, const std::string& stored,
                         bool has_adapters) {
  if (settings.frozen_dtype != "auto") return;
  const bool is_narrow = stored == "bf16" || stored == "fp16" || stored == "int8";
  const bool may_freeze =
      has_adapters || !settings.freeze.empty() || !settings.group.empty();
  settings.frozen_dtype = may_freeze && is_narrow ? stored : "fp32";
}

bool freezes_no_more(const Settings& settings, const Settings& before) {
  return settings.freeze == before.freeze && settings.group == before.group &&
         settings.unfreeze_at == before.unfreeze_at && settings.lora == before.lora;
}

void choose_for_machine(Settings& settings, const IsGiven& is_given) {
  const bool is_open = settings.offload == "auto" && may_keep_states(settings);
  if (is_open && !is_given("device_state_fraction"))
    settings.device_state_fraction = "auto";
  if (may_speculate(settings) && !is_given("speculate")) settings.speculate = "auto";
}

Settings defaults_beside(const Settings& settings) {
  Settings beside = settings;
  const IsGiven nothing = [](const std::string&) { return false; };
  choose_for_run(beside, nullptr, nothing);
  choose_accumulate(beside, nullptr, nothing);
  choose_for_machine(beside, nothing);
  Settings defaults;
  defaults.accumulate = beside.accumulate;
  defaults.schedule = beside.schedule;
  defaults.warmup_steps = beside.warmup_steps;
  defaults.eval_fraction = beside.eval_fraction;
  defaults.device_state_fraction = beside.device_state_fraction;
  defaults.speculate = beside.speculate;
  return defaults;
}

std::set<std::string> left_to_run(const Settings& settings, const RawValues& given) {
  const Settings chosen = defaults_beside(settings);
  std::set<std::string> keys;
  for (const char* key : {"accumulate", "schedule", "warmup_steps", "eval_fraction",
                          "device_state_fraction", "speculate"}) {
    const Setting& setting = *find_setting(key);
    if (setting.value(chosen) == setting.value(settings) && !given.contains(key))
      keys.insert(key);
  }
  return keys;
}

}  // namespace zero::launcher

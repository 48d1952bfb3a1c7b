#include "launcher/settings/verb_settings.h"

#include <algorithm>
#include <set>

namespace zero::launcher {
namespace {

using Keys = std::set<std::string>;

// These take no setting, or one that they read for themselves.
const std::set<std::string> kVerbsWithoutSettings = {"inspect", "verify", "diff",
                                                     "export",  "report", "doctor"};

// Of a process that holds a model, whatever it does with it.
const Keys kMachine = {
    "ranks",        "hosts",         "device",         "share_gpu",
    "tf32",         "threads",       "adam_threads",   "bind",
    "hang_timeout", "host_memory",   "device_memory",  "ignore_plan",
    "dtype",        "master",        "offload",        "device_state_fraction",
    "pin",          "prefetch",      "wrap_min_numel", "reshard_after_forward",
    "allow_extra",  "allow_missing", "seq_len",        "model_config",
    "chaos",        "delay",         "trace_comm",     "deterministic",
    "recompute"};
const Keys kEval = {"seed",         "data",        "bytes",     "eval_data",
                    "eval_samples", "micro_batch", "loss_chunk"};
const Keys kGenerate = {"micro_batch",   "loss_chunk",         "sample",
                        "sample_tokens", "sample_temperature", "seed"};
const Keys kSeed = {"data", "bytes", "seq_len", "seed", "out", "adam_threads"};

}  // namespace

bool counts_for(const std::string& verb, const Setting& setting) {
  if (kVerbsWithoutSettings.contains(verb)) return false;
  if (verb == "seed")
    return (setting.group == "model" && setting.key != "init_from") ||
           kSeed.contains(setting.key);
  if (verb == "eval")
    return kMachine.contains(setting.key) || kEval.contains(setting.key);
  if (verb == "generate")
    return kMachine.contains(setting.key) || kGenerate.contains(setting.key);
  return true;
}

}  // namespace zero::launcher

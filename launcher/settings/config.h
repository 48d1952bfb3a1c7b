#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// In which the starter of ranks tells them how wide its terminal is.
inline constexpr char kColumnsVariable[] = "ZERO_TERMINAL_COLUMNS";

// What a configuration must fit.
struct ConfigContext {
  std::string verb = "train";      // the others use a model, and have no batch to divide
  const Settings* base = nullptr;  // what counts instead of the defaults
  int num_ranks = 1;            // 0: not known yet, nothing that depends on it is checked
  std::string ranks_from = {};  // who told it: OMPI_COMM_WORLD_SIZE, ...; empty: nobody
  bool may_start_ranks = false;  // the setting `ranks` beats num_ranks
  bool is_complete = true;       // false: what a run cannot do without may be missing
                                 // (--print-config)
  bool checks_fit = true;  // false: values may not fit together, as a base is to come
  // Without a base: a run may begin, or goes on as `going_on` did (new_run.h).
  bool may_begin = false;
  const Settings* going_on = nullptr;
  const ModelFamilies* models = nullptr;  // nullptr: model names are not checked
  // Asked where something is given for a GPU, and device is auto. Empty: nobody knows.
  std::function<bool()> has_gpu = {};
};

// Settings from flags, else environment ("KEY=value", as in environ), else file, else
// defaults.
//
// Throws one Error(kUsage) that tells everything that is wrong in all of them: unknown,
// repeated and misspelt names, values that are not allowed, settings that do not fit
// together or do not fit the context.
Settings read_settings(const CommandLine& line,
                       const std::vector<std::string>& environment,
                       const ConfigContext& context);

// Those that are given, by flag, else environment, else file. What is wrong with them is
// read_settings()'s to tell.
RawValues given_values(const CommandLine& line,
                       const std::vector<std::string>& environment);

// Variables that begin as ours do and are like no setting: others' perhaps, for a
// warning. Those that are like one are an error of read_settings().
std::vector<std::string> unread_variables(const std::vector<std::string>& environment);

// Settings that are each allowed and do not fit together, or do not fit the context.
struct Conflict {
  std::vector<std::string> keys;
  std::string text;
};

std::vector<Conflict> find_conflicts(const Settings& settings,
                                     const ConfigContext& context);

// The part that depends on the number of ranks: batch arithmetic, deterministic sums.
std::vector<Conflict> find_rank_conflicts(const Settings& settings, int num_ranks);

}  // namespace zero::launcher

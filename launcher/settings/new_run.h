#pragma once
#include <functional>
#include <set>
#include <string>

#include "launcher/settings/setting_table.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// What a run that begins does where nobody says otherwise. The defaults of Settings are
// those of the library, and of checkpoints from before these were chosen.
//
//   accumulate     auto
//   schedule       cosine
//   warmup_steps   2% of steps; constant: 0
//   eval_fraction  0.02; with eval_data or deterministic: 0
//   device_state_fraction  auto; where no GPU keeps states, or offload is told: 0
//   speculate      auto; on CPU ranks, or where the engine would refuse it: off

constexpr int64_t kUsualWarmup = -1;  // of warmup_steps, until it is chosen

using IsGiven = std::function<bool(const std::string& key)>;

// Choose those that are not given: as the run that goes on has them, or, where `going_on`
// is nullptr, as above.
void choose_for_run(Settings& settings, const Settings* going_on,
                    const IsGiven& is_given);

// Where it is -1, what is usual, once the number of steps is known.
void choose_warmup(Settings& settings);

// The same of how passes come together; auto counts as not given where a run goes on: it
// is kept as what it became, since the other way rounds otherwise.
void choose_accumulate(Settings& settings, const Settings* before,
                       const IsGiven& is_given);

// Where frozen_dtype is auto: as the weights are stored, so that nothing is rounded; fp32
// where nothing is frozen, or they are stored in several types ("").
void choose_frozen_dtype(Settings& settings, const std::string& stored,
                         bool has_adapters);

// Is what a run has frozen so far, and kept in its frozen_dtype, all that this one
// freezes?
bool freezes_no_more(const Settings& settings, const Settings& before);

// May "auto" of speculate become more than off? Not on CPU ranks, where backward and
// updates need the same cores, nor where the engine refuses it.
bool may_speculate(const Settings& settings);

// Choose what is not given of those that a run chooses anew whenever it begins.
void choose_for_machine(Settings& settings, const IsGiven& is_given);

// The default of every setting in a run with these.
Settings defaults_beside(const Settings& settings);

// The settings that a run chooses by its others, where nobody said them: a file for
// --config leaves them to the run.
std::set<std::string> left_to_run(const Settings& settings, const RawValues& given);

}  // namespace zero::launcher

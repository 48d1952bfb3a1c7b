#pragma once
#include <functional>
#include <string>

#include "launcher/settings/settings.h"

namespace zero::launcher {

// What a GPU may keep: weights, and states, too.
struct MayStay {
  bool weights = false;  // not where there is no GPU, or ranks share it
  bool states = false;   // not those of an optimizer that GPUs have no kernel for
};

// Decide what settings leave open of where shards lie: "auto" of offload, and of
// device_state_fraction. The fastest comes first: what keeps most on the GPU of all that
// `fits`, and with it as large a fraction, in steps of 1/64. Where nothing fits, all goes
// to the host.
Settings choose_offload(const Settings& settings, const MayStay& may_stay,
                        const std::function<bool(const Settings&)>& fits);

// Of a GPU, for people: "which keeps weights (offload optimizer)"
std::string describe_offload(const std::string& offload,
                             const std::string& device_state_fraction);

}  // namespace zero::launcher

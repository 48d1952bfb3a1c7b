#pragma once
#include "launcher/process/binding.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class World;

struct ProcessSetup {
  Cores cores;
  int threads = 1;  // of the model's arithmetic
};

// Cores, threads, torch's seed and the delays of tests, as the settings say. Before the
// first arithmetic.
ProcessSetup set_up_process(const Settings& settings, const World& world);

}  // namespace zero::launcher

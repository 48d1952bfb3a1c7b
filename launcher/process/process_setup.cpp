#include "launcher/process/process_setup.h"

#include <map>
#include <string>

#include "engine/device/delays.h"
#include "launcher/process/runner.h"
#include "launcher/process/tensor_memory.h"
#include "launcher/process/world.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

std::map<std::string, int> delays_of(const Settings& settings) {
  std::map<std::string, int> delays;
  for (const std::string& delay : settings.delay) {
    const size_t equals = delay.find('=');
    delays[delay.substr(0, equals)] =
        static_cast<int>(parse_integer(delay.substr(equals + 1)).value());
  }
  return delays;
}

}  // namespace

ProcessSetup set_up_process(const Settings& settings, const World& world) {
  ProcessSetup setup;
  setup.cores = take_cores(world.local_rank(), world.local_size(), settings.bind);
  setup.threads = choose_threads(static_cast<int>(settings.threads),
                                 settings.deterministic, setup.cores.share);
  count_tensor_memory();
  set_threads(setup.threads);
  set_seed(static_cast<uint64_t>(settings.seed));
  set_delays(delays_of(settings));
  return setup;
}

}  // namespace zero::launcher

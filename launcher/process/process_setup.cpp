#include "launcher/process/process_setup.h"

#include <map>
#include <string>
#include <utility>

#include "engine/device/delays.h"
#include "launcher/process/runner.h"
#include "launcher/process/tensor_memory.h"
#include "launcher/process/world.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
ProcessSetup set_up_process(const Settings& settings, const World& world) {
  ProcessSetup setup;
  setup.cores = take_cores(world.local_rank(), world.local_size(), settings.bind);
  setup.threads = choose_threads(static_cast<int>(settings.threads),
                                 settings.deterministic, setup.cores.share);
  count_tensor_memory();
  set_threads(setup.threads);
  set_seed(static_cast<uint64_t>(settings.seed));
  std::map<std::string, int> delays;
  for (const std::string& delay : settings.delay) {
    const auto [point, milliseconds] = parse_delay(delay).value();
    delays[point] = milliseconds;
  }
  set_delays(std::move(delays));
  return setup;
}

}  // namespace zero::launcher

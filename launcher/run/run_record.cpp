#include "launcher/run/run_record.h"

#include <nlohmann/json.hpp>

#include "launcher/run/lines.h"
#include "zero/engine.h"

namespace zero::launcher {

nlohmann::ordered_json run_record(const Engine& engine,
                                  const std::vector<std::string>& hosts) {
  auto ranks_by_host = nlohmann::ordered_json::object();
  for (const std::string& host : hosts)
    ranks_by_host[host] = ranks_by_host.value(host, 0) + 1;
  return {{"world",
           {{"size", engine.size()},
            {"hosts", ranks_by_host},
            {"device", engine.uses_gpu() ? "GPU" : "CPU"},
            {"parameters", engine.num_parameters()},
            {"units", engine.num_units()}}},
          {"memory", to_json(engine.memory())}};
}

}  // namespace zero::launcher

#include "launcher/run/init_report.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "zero/errors.h"

namespace zero::launcher {

void write_init_report(const std::string& path, const std::vector<InitEntry>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const InitEntry& entry : entries) {
    nlohmann::ordered_json item = {
        {"fqn", entry.fqn},     {"kind", entry.is_buffer ? "buffer" : "param"},
        {"who", entry.who},     {"distribution", entry.distribution},
        {"numel", entry.numel}, {"mean", entry.mean},
        {"std", entry.std},     {"checksum", fmt::format("{:016x}", entry.checksum)}};
    if (entry.num_infinite > 0) item["infinite"] = entry.num_infinite;
    list.push_back(std::move(item));
  }
  std::ofstream file(path);
  file << list.dump(1) << '\n';
  file.close();
  if (!file)
    throw Error(ExitCode::kEnvironment, "the report of first values cannot be written",
                path, "--init-report FILE in a folder that is there, with room");
}

}  // namespace zero::launcher

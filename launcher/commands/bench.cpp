#include "launcher/commands/bench.h"

#include <cstdio>
#include <optional>

#include "launcher/bench/adam.h"
#include "launcher/bench/checkpoint.h"
#include "launcher/bench/comm.h"
#include "launcher/bench/options.h"
#include "launcher/bench/row.h"
#include "launcher/bench/step.h"
#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/world.h"
#include "launcher/run/report.h"

namespace zero::launcher {
namespace {

int print_rows(const std::vector<Row>& rows, const CommandLine& line) {
  const std::string text = line.json ? Row(rows).dump() + "\n" : to_table(rows);
  std::fputs(text.c_str(), stdout);
  return static_cast<int>(ExitCode::kDone);
}

// Of one process: of several ranks the first one measures.
int bench_alone(const BenchKind& kind, const BenchOptions& options,
                const CommandLine& line) {
  return print_rows(kind.name == "adam" ? bench_adam(options) : bench_checkpoint(options),
                    line);
}

int bench_together(const BenchKind& kind, const BenchOptions& options,
                   const CommandLine& line, const ModelFamilies& models,
                   const std::optional<AnnouncedWorld>& announced) {
  std::optional<StepBench> steps;
  if (kind.name == "step") steps.emplace(options, models);
  World world(announced);
  try {
    const std::vector<Row> rows = steps ? steps->run(world) : bench_comm(options, world);
    return world.rank() == 0 ? print_rows(rows, line) : static_cast<int>(ExitCode::kDone);
  } catch (...) {
    return report_and_end(describe(std::current_exception()), world);
  }
}

}  // namespace

int bench(const CommandLine& line, const ModelFamilies& models) {
  const std::vector<std::string> environment = process_environment();
  const std::optional<AnnouncedWorld> announced = announced_world(environment);
  const int rank = announced ? announced->rank : 0;
  try {
    const BenchKind& kind = find_bench_kind(line);
    const BenchOptions options = read_bench_options(kind, line, environment, models);
    if (kind.is_of_ranks()) {
      check_start(environment, announced, options.settings.ranks);
      if (!announced && options.settings.ranks > 1)
        return start_ranks(
            {static_cast<int>(options.settings.ranks), "", line.words, ""});
      return bench_together(kind, options, line, models, announced);
    }
    return rank > 0 ? static_cast<int>(ExitCode::kDone)
                    : bench_alone(kind, options, line);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank);
  }
}

}  // namespace zero::launcher

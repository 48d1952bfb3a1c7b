#include "launcher/commands/bench.h"

#include <cstdio>
#include <optional>

#include "launcher/bench/adam.h"
#include "launcher/bench/options.h"
#include "launcher/bench/row.h"
#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/run/report.h"

namespace zero::launcher {
namespace {

int print_rows(const std::vector<Row>& rows, const CommandLine& line) {
  const std::string text = line.json ? Row(rows).dump() + "\n" : to_table(rows);
  std::fputs(text.c_str(), stdout);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int bench(const CommandLine& line, const ModelFamilies& models) {
  const std::vector<std::string> environment = process_environment();
  const std::optional<AnnouncedWorld> announced = announced_world(environment);
  const int rank = announced ? announced->rank : 0;
  try {
    const BenchKind& kind = find_bench_kind(line);
    const BenchOptions options = read_bench_options(kind, line, environment, models);
    if (rank > 0) return static_cast<int>(ExitCode::kDone);
    return print_rows(bench_adam(options), line);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank);
  }
}

}  // namespace zero::launcher

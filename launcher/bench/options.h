#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// What `zero_launch bench KIND` takes: some settings of `train`, with defaults of its
// own, and two flags that no other verb has, --rounds and --size.
struct BenchKind {
  std::string name, summary;
  std::vector<std::string> settings = {};  // keys of those that it uses
  Settings defaults = {};
  int64_t default_rounds = 0;
  std::string size_help = {};  // what --size means here; empty: it takes none
  int64_t default_size = 0;    // bytes

  bool takes(const std::string& setting) const;
};

// adam, step, init, comm, checkpoint, transfer.
const std::vector<BenchKind>& bench_kinds();

// What one kind is told.
struct BenchOptions {
  Settings settings;
  int64_t rounds = 0;  // medians of so many
  int64_t size = 0;    // bytes; 0 where the kind has none
};

// The kind that the command line names. Throws Error(kUsage) when there is none such.
const BenchKind& find_bench_kind(const CommandLine& line);

// Throws one Error(kUsage) that tells all that is wrong: flags that this kind does not
// use, values that are not allowed.
BenchOptions read_bench_options(const BenchKind& kind, const CommandLine& line,
                                const std::vector<std::string>& environment,
                                const ModelFamilies& models);

// The page of `zero_launch bench --help`.
std::string bench_help(const std::string& verb);

}  // namespace zero::launcher

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "launcher/bench/benches.h"
#include "launcher/run/lines.h"
#include "launcher/settings/config.h"
#include "launcher/settings/help.h"
#include "launcher/settings/names.h"
#include "launcher/settings/values.h"
#include "offload/topology.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr int64_t kSmallest = 64 << 10, kMostRounds = 1000;

// Too large to stay in a cache: four times the last one, of 32 MiB where nobody tells.
int64_t bytes_beyond_caches() {
  const int64_t cache = read_topology().cache_bytes;
  return 4 * (cache > 0 ? cache : 32 * kMiB);
}

std::vector<BenchKind> make_kinds() {
  return {
      {.name = "adam",
       .summary = "the update and the gradient's norm on 1, 2, 4 ... all threads, in one "
                  "unit and in 24, against a sweep that reads and writes the same arrays",
       .settings = {"threads", "bind"},
       .default_rounds = 15,
       .size_help = "of each fp32 array",
       .default_size = bytes_beyond_caches()},
      {.name = "layer",
       .summary = "the parts of layers that models are made of, forward and backward, "
                  "against LibTorch's operators and the speed of memory",
       .settings = {"threads", "bind"},
       .defaults = {.device = "cpu", .threads = 1},
       .default_rounds = 15,
       .size_help = "of a function's first input",
       .default_size = bytes_beyond_caches()},
      {.name = "step",
       .summary = "training steps against silent processes, one for each rank, that run "
                  "forward and backward of the whole model and nothing else; alone also "
                  "how much of the updates hides behind the next forward",
       .settings = {"model", "preset", "layers", "dim", "heads", "kv_heads", "ffn_dim",
                    "vocab", "seq_len", "micro_batch", "ranks", "steps", "threads",
                    "dtype", "reduce_dtype", "reshard_after_forward", "prefetch",
                    "recompute"},
       // Nothing that trades time for memory; the device as what it is compared with.
       .defaults = {.steps = 4,
                    .device = "cpu",
                    .threads = 1,
                    .adam_threads = 1,
                    .reshard_after_forward = false,
                    .recompute = "none"},
       .default_rounds = 5},
      {.name = "init",
       .summary = "first values of a model on all ranks, and the memory beside their "
                  "shards that they take",
       .settings = {"model", "preset", "model_config", "layers", "dim", "heads",
                    "kv_heads", "ffn_dim", "vocab", "seq_len", "seed", "ranks",
                    "adam_threads"},
       .default_rounds = 3},
      {.name = "comm",
       .summary = "all_gather and reduce_scatter of the ranks against memcpy of the same "
                  "bytes",
       .settings = {"ranks", "bind"},
       .default_rounds = 15,
       .size_help = "of what all ranks have together",
       .default_size = bytes_beyond_caches()},
      {.name = "checkpoint",
       .summary = "saving, loading and verifying against plain files of the same bytes, "
                  "with fsync, in the folder --out (the current one)",
       .settings = {"out", "ranks"},
       .default_rounds = 5,
       .size_help = "of masters and moments of all ranks",
       .default_size = 512 * kMiB},
      {.name = "saves",
       .summary = "checkpoints of a model that steps wait for, against plain files with "
                  "fsync, and beside steps: what training loses; in the folder --out "
                  "(the current one)",
       .settings = {"out", "model", "preset", "layers", "dim", "heads", "kv_heads",
                    "ffn_dim", "vocab", "seq_len", "micro_batch", "ranks", "threads",
                    "bind", "dtype", "master", "state_dtype"},
       .defaults = {.device = "cpu", .threads = 1},
       .default_rounds = 5},
      {.name = "transfer",
       .summary = "copies between pinned memory of the host and each GPU, one way and "
                  "both at once, against memcpy",
       .default_rounds = 15,
       .size_help = "of one copy",
       .default_size = bytes_beyond_caches()}};
}

std::vector<std::string> names_of_kinds() {
  std::vector<std::string> names;
  for (const BenchKind& kind : bench_kinds()) names.push_back(kind.name);
  return names;
}

std::vector<std::string> flags_of(const BenchKind& kind) {
  std::vector<std::string> flags = {"--json", "--rounds"};
  if (!kind.size_help.empty()) flags.push_back("--size");
  for (const std::string& key : kind.settings)
    flags.push_back(flag_of(*find_setting(key)));
  return flags;
}

void refuse(Problems& problems, const BenchKind& kind, const std::string& flag) {
  problems.push_back({fmt::format("bench {} does not use {}; allowed: {}", kind.name,
                                  flag, alternatives(flags_of(kind))),
                      "command line"});
}

Problems unused_flags(const BenchKind& kind, const CommandLine& line) {
  Problems problems;
  for (const auto& [key, value] : line.flags) {
    if (!kind.takes(key)) refuse(problems, kind, flag_of(*find_setting(key)));
  }
  if (!line.config_file.empty()) refuse(problems, kind, "--config");
  if (!line.size.empty() && kind.size_help.empty()) refuse(problems, kind, "--size");
  return problems;
}

// `text` as `parse` reads it, where something is given; else what is there already.
template <class Parse>
void read_value(const std::string& flag, const std::string& text, Parse parse,
                int64_t least, int64_t most, const std::string& allowed, int64_t& value,
                Problems& problems) {
  if (text.empty()) return;
  const std::optional<int64_t> found = parse(text);
  if (found && least <= *found && *found <= most) {
    value = *found;
  } else {
    problems.push_back(
        {fmt::format("{} is \"{}\"; allowed: {}", flag.substr(2), text, allowed), flag});
  }
}

}  // namespace

bool BenchKind::takes(const std::string& setting) const {
  return std::ranges::find(settings, setting) != settings.end();
}

const std::vector<BenchKind>& bench_kinds() {
  static const std::vector<BenchKind> kinds = make_kinds();
  return kinds;
}

const BenchKind& find_bench_kind(const CommandLine& line) {
  const auto found = std::ranges::find(bench_kinds(), line.kind, &BenchKind::name);
  if (found != bench_kinds().end()) return *found;
  throw Error(ExitCode::kUsage,
              line.kind.empty()
                  ? "bench needs a kind; allowed: " + alternatives(names_of_kinds())
                  : fmt::format("\"{}\" is no kind of bench{}", line.kind,
                                offer(line.kind, names_of_kinds())),
              "command line", "zero_launch bench --help tells what each one measures");
}

BenchOptions read_bench_options(const BenchKind& kind, const CommandLine& line,
                                const std::vector<std::string>& environment,
                                const ModelFamilies& models) {
  CommandLine checked = line;
  append(checked.problems, unused_flags(kind, line));
  BenchOptions options;
  options.rounds = kind.default_rounds;
  options.size = kind.default_size;
  read_value("--rounds", line.rounds, parse_integer, 1, kMostRounds,
             fmt::format("an integer from 1 to {}", kMostRounds), options.rounds,
             checked.problems);
  read_value("--size", line.size, parse_size, kSmallest, int64_t{1} << 50,
             "bytes such as 256MiB, at least " + format_size(kSmallest), options.size,
             checked.problems);
  options.settings = read_settings(
      checked, environment, {.verb = "bench", .base = &kind.defaults, .models = &models});
  return options;
}

std::string bench_help() {
  std::string page = fmt::format(
      "zero_launch bench {} [--flag value]...\n"
      "mpirun -n RANKS zero_launch bench step|saves|init|comm|checkpoint ...\n\n"
      "Measures beside each thing what it cannot be faster than, in turn with it.\n\n",
      fmt::join(names_of_kinds(), "|"));
  page += help_line("--json", "print one JSON array of rows instead of the table");
  page += help_line("--rounds N", "medians of so many, after one that warms up");
  page += help_line("--help", "this page");
  for (const BenchKind& kind : bench_kinds()) {
    page += fmt::format("\n{}: {}; {} rounds\n", kind.name, kind.summary,
                        kind.default_rounds);
    if (!kind.size_help.empty())
      page += help_line("--size SIZE", fmt::format("{} [{}]", kind.size_help,
                                                   format_size(kind.default_size)));
    for (const std::string& key : kind.settings)
      page += setting_line(*find_setting(key), kind.defaults);
  }
  return page;
}

}  // namespace zero::launcher

#include "launcher/plan/run_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "base/dtype.h"
#include "base/files.h"
#include "engine/comm/choose_gpu.h"
#include "launcher/process/mpirun.h"
#include "launcher/run/lines.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"
#include "zero/gpu.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// ---- where shards lie

constexpr int kSteps = 64;  // of a fraction

std::vector<std::string> ways_of(const Settings& settings, const MayStay& may_stay) {
  if (settings.offload != "auto") return {settings.offload};
  if (!may_stay.weights) return {"all"};
  if (!may_stay.states) return {"optimizer", "all"};
  return {"none", "optimizer", "all"};
}

Settings with_fraction(Settings settings, int step) {
  settings.device_state_fraction = fmt::format("{}", static_cast<double>(step) / kSteps);
  return settings;
}

// Of those that the GPU has room for; it has without any.
Settings with_largest_fraction(const Settings& settings,
                               const std::function<HasRoom(const Settings&)>& fits) {
  int fitting = 0, too_much = kSteps + 1;
  while (too_much - fitting > 1) {
    const int middle = (fitting + too_much) / 2;
    (fits(with_fraction(settings, middle)).gpu ? fitting : too_much) = middle;
  }
  return with_fraction(settings, fitting);
}

}  // namespace

int64_t RunPlan::draft_bytes() const {
  int64_t bytes = 0;
  for (const MemoryEntry& entry : engine)
    bytes += entry.owner == "drafts" ? entry.bytes : 0;
  return bytes;
}

int64_t RunPlan::engine_bytes() const {
  int64_t bytes = 0;
  for (const MemoryEntry& entry : engine) bytes += entry.bytes;
  return bytes;
}

int64_t RunPlan::engine_gpu_bytes() const {
  int64_t bytes = 0;
  for (const MemoryEntry& entry : engine)
    bytes += on_gpu && entry.tier == "device" ? entry.bytes : 0;
  return bytes;
}

int64_t RunPlan::engine_host_bytes() const { return engine_bytes() - engine_gpu_bytes(); }

int64_t RunPlan::rank_bytes() const {
  const int64_t known = std::max<int64_t>(activations, 0) + key_values + offloaded;
  return engine_bytes() + known + kernels + objects + program.rank +
         (on_gpu ? kCudaBytes : 0);
}

int64_t RunPlan::gpu_bytes() const {
  if (!on_gpu) return 0;
  return engine_gpu_bytes() + std::max<int64_t>(activations, 0) + key_values + kCudaBytes;
}

int64_t RunPlan::of_node(int64_t bytes, int64_t more) const {
  const bool is_too_much = __builtin_mul_overflow(bytes, ranks_on_node, &bytes) ||
                           __builtin_add_overflow(bytes, more, &bytes);
  return is_too_much ? std::numeric_limits<int64_t>::max() : bytes;
}

int64_t RunPlan::node_bytes() const {
  return of_node(rank_bytes() - gpu_bytes(), program.starter);
}

PassShape pass_shape(const Settings& settings, int num_ranks) {
  const bool is_whole = settings.accumulate == "unit";
  PassShape pass;
  pass.rows = is_whole ? std::max<int64_t>(1, settings.global_batch / num_ranks)
                       : settings.micro_batch;
  pass.rows_in_units = std::min(pass.rows, settings.micro_batch);
  pass.element_bytes = size_of(dtype_named(settings.dtype).value());
  pass.recompute_every = parse_recompute(settings.recompute).value();
  pass.offloads = settings.offload_activations;
  return pass;
}

Settings choose_offload(const Settings& settings, const MayStay& may_stay,
                        const std::function<HasRoom(const Settings&)>& fits) {
  const bool is_open = settings.device_state_fraction == "auto";
  Settings chosen = settings;
  for (const std::string& way : ways_of(settings, may_stay)) {
    chosen.offload = way;
    const bool has_fraction = way != "none" && may_stay.states;
    chosen.device_state_fraction = settings.device_state_fraction;
    if (is_open || (!has_fraction && settings.offload == "auto"))
      chosen.device_state_fraction = "0";
    const bool is_asked = may_stay.weights && (settings.offload == "auto" || is_open);
    if (!is_asked || !fits(chosen).gpu) continue;
    const Settings largest =
        is_open && has_fraction ? with_largest_fraction(chosen, fits) : chosen;
    if (fits(largest).host) return largest;
  }
  return chosen;
}

Settings choose_passes(const Settings& settings, const MayStay& may_stay, bool has_rows,
                       int64_t num_passes,
                       const std::function<HasRoom(const Settings&)>& fits) {
  const auto has_room = [&](const Settings& with) {
    const HasRoom room = fits(with);
    return room.gpu && room.host;
  };
  const bool is_several = num_passes > 1 && may_stay.weights;
  Settings usual = settings;
  if (settings.accumulate == "auto") usual.accumulate = "model";
  if (settings.grad_sums == "auto") usual.grad_sums = "host";
  usual = choose_offload(usual, may_stay, fits);
  if (settings.accumulate == "auto" && is_several && has_rows && usual.offload == "all") {
    Settings by_unit = usual;
    by_unit.accumulate = "unit";
    by_unit.device_state_fraction = settings.device_state_fraction;
    by_unit = choose_offload(by_unit, may_stay, fits);
    if (has_room(by_unit)) return by_unit;
  }
  Settings on_gpu = usual;
  on_gpu.grad_sums = "device";
  const bool pays = is_several && usual.accumulate != "unit" && usual.offload != "none";
  return settings.grad_sums == "auto" && pays && has_room(on_gpu) ? on_gpu : usual;
}

bool fits(const RunPlan& plan, const Wish& wish) {
  return plan.node_bytes() <= wish.room && plan.gpu_bytes() <= wish.gpu_room;
}

// A part is left to others, as of what a GPU has.
int64_t room_for_drafts(const RunPlan& plan, int64_t host_room) {
  constexpr double kShare = 0.9;
  const int64_t left =
      static_cast<int64_t>(kShare * static_cast<double>(host_room)) - plan.node_bytes();
  return std::max<int64_t>(left / plan.ranks_on_node, 0);
}

std::string describe_offload(const RunPlan& plan) {
  const Settings& settings = plan.settings;
  std::string text = settings.offload == "none"        ? "which keeps weights and states"
                     : settings.offload == "optimizer" ? "which keeps weights"
                                                       : "to which weights stream";
  const double fraction = parse_fraction(settings.device_state_fraction).value_or(0);
  if (fraction > 0)
    text += fmt::format(", and keeps {:.0f}% of the states", 100 * fraction);
  text += fmt::format(" (offload {})", settings.offload);
  if (settings.accumulate == "unit")
    text += "; units take all passes at once (accumulate unit)";
  else if (settings.grad_sums == "device")
    text += "; passes are added up there (grad_sums device)";
  if (plan.draft_bytes() > 0)
    text += fmt::format(
        "; updates begin in backward, with {} for their drafts "
        "(speculate {})",
        short_bytes(plan.draft_bytes()), settings.speculate);
  return text;
}

std::vector<HostSlots> slots_of_hosts(const std::string& path) {
  constexpr char kCure[] = "--hosts FILE, a line for each host: name slots=N";
  std::error_code error;
  std::ifstream file(path);
  if (!std::filesystem::is_regular_file(path, error) || !file)
    throw Error(ExitCode::kUsage, "there is no such file", path, kCure);
  std::vector<HostSlots> slots;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string name;
    if (!(words >> name)) continue;
    HostSlots here{name,
                   std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
    for (std::string word; words >> word;) {
      if (word.starts_with("slot=") || word.starts_with("slots=")) {
        const auto told = parse_integer(word.substr(word.find('=') + 1));
        if (word.starts_with("slot=") || !told || *told < 1 || *told > 1 << 20)
          throw Error(ExitCode::kUsage, fmt::format("a host has \"{}\"", word),
                      fmt::format("{}, line {}", path, number), kCure);
        here.slots = static_cast<int>(*told);
        here.are_told = true;
      }
    }
    const auto known = std::ranges::find(slots, name, &HostSlots::name);
    if (known == slots.end())
      slots.push_back(here);
    else
      known->slots += here.slots;
  }
  if (slots.empty()) throw Error(ExitCode::kUsage, "no host is listed", path, kCure);
  return slots;
}

// How many of the ranks mpirun starts on each host. It fills the slots of one after the
// other. More ranks than those are dealt out evenly, and the first hosts get the rest:
// also where a host has as many slots as cores, which are not known here.
static std::vector<int> ranks_of_hosts(const std::string& hosts_file, int num_ranks,
                                       bool may_oversubscribe) {
  std::vector<int> ranks;
  int left = num_ranks;
  const std::vector<HostSlots> hosts = slots_of_hosts(hosts_file);
  for (const HostSlots& host : hosts) {
    const int here = std::min(host.slots, left);
    if (here == 0) break;
    left -= here;
    ranks.push_back(here);
  }
  if (left > 0 && !may_oversubscribe &&
      std::ranges::all_of(hosts, &HostSlots::are_told)) {
    const int slots = num_ranks - left;
    throw Error(ExitCode::kUsage,
                fmt::format("the hosts have {} slot{}, ranks is {}", slots,
                            slots == 1 ? "" : "s", num_ranks),
                hosts_file,
                fmt::format("--ranks {} or fewer; more slots in this file; or {}=1, with "
                            "which mpirun starts more ranks than there are slots",
                            slots, kOversubscribeVariable));
  }
  const int num_hosts = static_cast<int>(ranks.size());
  for (int i = 0; i < num_hosts; ++i)
    ranks[i] += left / num_hosts + (i < left % num_hosts ? 1 : 0);
  return ranks;
}

int ranks_on_fullest(const std::string& hosts_file, int num_ranks,
                     bool may_oversubscribe) {
  return std::ranges::max(ranks_of_hosts(hosts_file, num_ranks, may_oversubscribe));
}

void require_equal_hosts(const Settings& settings, int num_ranks,
                         bool may_oversubscribe) {
  if (settings.hosts.empty() || settings.shard_over != "host") return;
  const auto [fewest, most] =
      std::ranges::minmax(ranks_of_hosts(settings.hosts, num_ranks, may_oversubscribe));
  if (fewest == most) return;
  throw Error(
      ExitCode::kUsage,
      fmt::format("hosts have different numbers of ranks: {} and {}", fewest, most),
      "--shard-over host", "as many slots on each host; or --shard-over all");
}

int most_on_a_gpu(const Settings& settings, int ranks_on_node) {
  const int count = settings.device == "cpu" ? 0 : num_gpus();
  if (count == 0) return settings.share_gpu ? ranks_on_node : 1;  // for each rank one
  return (ranks_on_node + count - 1) / count;
}

int64_t room_on_gpu(const Settings& settings, int gpu, int num_sharing) {
  if (settings.device == "cpu") return 0;
  if (num_gpus() == 0)
    return settings.device == "cuda" ? settings.device_memory / num_sharing : 0;
  const GpuMemory memory = memory_of_gpu(gpu);
  const int64_t of_a_gpu = settings.device_memory > 0
                               ? std::min(settings.device_memory, memory.total)
                               : memory.free + kCudaBytes;  // it has begun here
  return of_a_gpu / num_sharing;
}

int64_t room_on_gpu(const Settings& settings, Ranks& ranks) {
  const bool may_look = settings.device != "cpu";
  const int gpu = find_gpu(may_look ? DeviceChoice::kAuto : DeviceChoice::kCpu, ranks);
  // Ranks may see one each, which somebody has dealt out.
  const std::string own = gpu < 0 ? "" : identity_of_gpu(gpu);
  const auto sharing = std::ranges::count(ranks.gather(own), own);
  return room_on_gpu(
      settings, gpu,
      gpu < 0 ? most_on_a_gpu(settings, ranks.local_size()) : static_cast<int>(sharing));
}

int64_t own_bytes(const std::string& pid) {
  return read_field("/proc/" + pid + "/status", "RssAnon:").value_or(0) * 1024;  // "1 kB"
}

Product largest_product(const Wish& wish) {
  if (wish.gpu_room > 0) return {};
  const ModelShape& shape = wish.shape;
  const int64_t rows = pass_shape(wish.settings, wish.num_ranks).rows_in_units;
  return {rows * shape.seq_len, shape.dim(),
          std::max({4 * shape.dim(), shape.ffn_dim(), shape.vocab()})};
}

ProgramBytes measure_program(const Product& largest) {
  try_product(largest);
  return {own_bytes("self"), own_bytes(std::to_string(getppid()))};
}

ProgramBytes largest_program(Ranks& ranks, const Product& largest) {
  const ProgramBytes own = measure_program(largest);
  const int64_t rank = ranks.largest(own.rank, "program bytes");
  if (ranks.size() == 1) return {rank, 0};
  return {rank, ranks.largest(own.starter, "starter bytes")};
}

}  // namespace zero::launcher

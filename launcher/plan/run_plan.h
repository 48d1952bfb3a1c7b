#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/model.h"
#include "launcher/process/process_setup.h"
#include "launcher/settings/settings.h"
#include "zero/reports.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

// What is held before there is a model, measured where a run is to be: in bytes.
struct ProgramBytes {
  int64_t rank = 0;     // of a rank: the program, its libraries, buffers of products
  int64_t starter = 0;  // of the process that started the ranks

  int64_t of_node(int num_ranks) const { return rank * num_ranks + starter; }
};

// What is to be planned, and the memory of a node that it must fit.
struct Wish {
  Settings settings;
  ModelShape shape;
  int num_ranks = 1, ranks_on_node = 1;
  int64_t room = 0;      // bytes
  int64_t gpu_room = 0;  // bytes of a GPU's memory that each rank has; 0: it has none
  ProgramBytes program = {};
  Task task = Task::kLanguage;
};

// What a run takes of memory, known before it takes any.
struct RunPlan {
  // What they left open is decided: see choose_offload(), choose_passes().
  Settings settings;
  ModelShape shape;
  int64_t num_parameters = 0;
  int num_ranks = 1, ranks_on_node = 1;  // on the fullest node
  // Of one rank:
  std::vector<MemoryEntry> engine;  // exact
  Traffic step;                     // what it moves in a step
  int64_t activations = -1;         // estimated; -1: the model's family tells nothing
  int64_t other_activations = -1;   // with the loss the other way: see other_loss_chunk
  int64_t key_values = 0;           // of texts that are made, in the end
  int64_t offloaded = 0;            // estimated: inputs of units in the host's memory
  int64_t kernels = 0;  // at most: what LibTorch has compiled for shapes that it met
  int64_t objects = 0;  // estimated: modules, threads, a save, the kernel's page tables
  ProgramBytes program = {};      // the starter's once a node
  bool on_gpu = false;            // else the host computes, whose all bytes are
  bool is_forward_alone = false;  // which has fewer activations than these
  // Of each group of parameters, as settings word it, and of the others; none where there
  // are no groups.
  std::vector<std::pair<std::string, GroupShare>> groups;

  int64_t draft_bytes() const;   // of one rank's speculation
  int64_t engine_bytes() const;  // of one rank, wherever they are
  // In the host's memory, and in a GPU's.
  int64_t engine_host_bytes() const;
  int64_t engine_gpu_bytes() const;
  int64_t rank_bytes() const;  // all of one rank's, wherever
  int64_t gpu_bytes() const;   // of that, in a GPU's memory
  int64_t node_bytes() const;  // in the host's memory, of all ranks of the fullest node
  // Of them, if that is one rank's; the largest number, if it is larger.
  int64_t of_node(int64_t bytes, int64_t more = 0) const;
};

// What CUDA, its libraries and LibTorch's operators keep in a GPU's memory, about.
constexpr int64_t kCudaBytes = 768 << 20;

// What a plan compares a loss of all logits with.
constexpr int64_t kLossChunk = 1024;

// With all logits at once where these are made in chunks, else in chunks of kLossChunk.
constexpr int64_t other_loss_chunk(int64_t chunk) { return chunk > 0 ? 0 : kLossChunk; }

// Plan settings that fit together, for `model`, which has the wish's shape and may be
// deferred: nothing is allocated. What they leave open is chosen (RunPlan::settings).
RunPlan make_plan(const Wish& wish, const ModelFamily& family, Model& model);

// What a GPU may keep: weights, and states, too.
struct MayStay {
  bool weights = false;  // not where there is no GPU, or ranks share it
  bool states = false;   // not those of an optimizer that GPUs have no kernel for
};

// Who has room for a plan.
struct HasRoom {
  bool gpu = false, host = false;
};

// Decide what settings leave open of where shards lie: "auto" of offload, and of
// device_state_fraction. The fastest comes first: what keeps most on the GPU of all that
// both have room for, and with it as large a fraction, in steps of 1/64, which may be
// what makes room in the host. Where nothing fits, all goes to the host.
Settings choose_offload(const Settings& settings, const MayStay& may_stay,
                        const std::function<HasRoom(const Settings&)>& fits);

// The same, and of how `num_passes` of a step come together: "auto" of accumulate, and of
// grad_sums. Where weights stream to a GPU, units work through all passes at once, if the
// model's may (`has_rows`); else passes are added up on the GPU. Both only where there is
// room, the former before states.
Settings choose_passes(const Settings& settings, const MayStay& may_stay, bool has_rows,
                       int64_t num_passes,
                       const std::function<HasRoom(const Settings&)>& fits);

// What is left of the host's memory for what a plan without speculation leaves free, of
// one rank; 0 where it is too little for "auto" to make use of it.
int64_t room_for_drafts(const RunPlan& plan, int64_t host_room);

// Of a GPU, for people: "which keeps weights (offload optimizer)"
std::string describe_offload(const RunPlan& plan);

bool fits(const RunPlan& plan, const Wish& wish);

// Does so much fit there that nobody asked for? Not where activations are unknown.
bool fits_on_gpu(const RunPlan& plan, int64_t gpu_room);

// What goes through a model at once under these settings.
PassShape pass_shape(const Settings& settings, int num_ranks);

// How many ranks mpirun starts on a host: one a core where nobody has told, which is
// taken to be one of a machine like this one.
struct HostSlots {
  std::string name;
  int slots = 1;
  bool are_told = false;
};

// Of the hosts that a file of mpirun lists ("name slots=4" a line), as they come. Throws
// Error(kUsage) for a file without hosts, or that cannot be read.
std::vector<HostSlots> slots_of_hosts(const std::string& path);

// The most ranks that mpirun puts on one of them. Throws as slots_of_hosts(), and where
// the hosts are told to have fewer slots, unless mpirun may oversubscribe them
// (mpirun.h).
int ranks_on_fullest(const std::string& hosts_file, int num_ranks,
                     bool may_oversubscribe = false);

// Throw Error(kUsage) where ranks share weights with those of their host, and mpirun puts
// more on one of the hosts than on another: no engine would start.
void require_equal_hosts(const Settings& settings, int num_ranks,
                         bool may_oversubscribe = false);

// Wish::gpu_room of a rank that computes on GPU `gpu`, if there is one, under these
// settings; also 0 where a GPU is asked for, but none is here and no setting tells how
// much memory it has. `num_sharing` ranks compute on that GPU.
int64_t room_on_gpu(const Settings& settings, int gpu, int num_sharing);

// How many ranks of a node compute on its fullest GPU, where all see the same ones, or
// would, if there were some.
int most_on_a_gpu(const Settings& settings, int ranks_on_node);

// The same for this rank, on the GPU that its engine will take. Collective.
int64_t room_on_gpu(const Settings& settings, Ranks& ranks);

// Of a pass; empty where a GPU computes.
Product largest_product(const Wish& wish);

// Of this process as a rank, whose threads are set, and of the one that started it. Tries
// the largest product of a pass first: see try_product().
ProgramBytes measure_program(const Product& largest);

// The same of the rank that holds most. Collective.
ProgramBytes largest_program(Ranks& ranks, const Product& largest);

// The memory of a process that is no file's, in bytes; "self" is this one.
int64_t own_bytes(const std::string& pid);

}  // namespace zero::launcher

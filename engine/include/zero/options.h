#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "offload/exact_sum.h"
#include "offload/optimizer.h"
#include "zero/init_functions.h"
#include "zero/init_spec.h"
#include "zero/loss_scale.h"
#include "zero/lr_schedule.h"

namespace zero {

class Engine;

enum class DeviceChoice { kAuto, kCpu, kCuda };  // auto: a GPU if there is one
enum class Accumulate { kModel, kUnit };

// What stays in the host's memory where a GPU computes: all shards, of which weights are
// copied to the GPU each time they are needed; masters and optimizer states, which the
// host updates, while weights in compute precision stay on the GPU and come over once a
// step; or nothing, so that the GPU makes the update, too.
enum class Offload { kAll, kOptimizer, kNone };

// What of the shards in the host's memory is pinned for a GPU: all, at once; or what its
// copies touch, which are the weights in compute precision that it is sent, and
// gradients.
enum class Pin { kAll, kTransfers };

enum class GradSums { kHost, kDevice };

// Which units make their activations again in backward instead of keeping them. Of the
// leaves, which are the units that hold no other one, in the plan's order: the first one,
// and each `every`-th after it; 0: none. The last units of a forward come first in
// backward: it pays least to recompute them. Those whose class says kKeepsGraph are not
// recomputed and not counted, unless a unit works through its batch in micro-batches.
struct Recompute {
  int64_t every = 1;

  static const Recompute kUnit;  // every leaf
  static const Recompute kNone;

  // `leaf`: how many leaves come before it.
  constexpr bool includes(int64_t leaf) const { return every > 0 && leaf % every == 0; }
  bool operator==(const Recompute&) const = default;
};
inline constexpr Recompute Recompute::kUnit{1}, Recompute::kNone{0};

// How fp32 masters lie in memory beside the bf16 copy that a unit computes with: as they
// are, or split, so that the copy is their high half (see offload/stored_values.h).
enum class MasterStorage { kFp32, kSplit };

enum class WeightDecayOn {
  kMatrices,
  kAll
};  // matrices: parameters with two or more dimensions

// What a step does to a parameter that got no gradient in any pass on any rank. kZeros:
// it had one of zeros, so that weight decay and moments go on. kLeave: nothing, as torch
// does after its zero_grad(); its own count of updates, which AdamW's bias correction
// reads, stands still.
enum class Unused { kZeros, kLeave };

// Parameters of which an FQN matches `pattern` (a glob: * any text, ? any character) and
// no earlier group's.
struct ParamGroup {
  std::string pattern;
  double lr_scale = 1;
  std::optional<double> weight_decay = {};  // unset: as OptimizerOptions and
                                            // WeightDecayOn say
  bool frozen = false;                      // neither gradient nor optimizer state
};

// What holds for the units whose FQN matches `pattern`; "(root)" is the name of what is
// outside of units. What is unset is as Options says. A pattern that matches no unit, or
// one that AutoWrap has merged, is an error, and so are two that say different things of
// one unit.
struct UnitOption {
  std::string pattern;
  // Of weights and activations inside; floats of the type around the unit are cast at its
  // border, both ways. fp32, or bf16 where Options::dtype is fp32.
  std::optional<DType> dtype = {};
  std::optional<bool> reshard = {};     // as Options::reshard_after_forward
  std::optional<Offload> offload = {};  // as Options::offload
};

// Parameters that an engine leaves whole on every rank, as ordinary leaves of the module
// in their own type. They start as rank 0's and are saved as others are. Their gradients
// arrive in .grad, of the sum of losses; their optimizer is the caller's. Norm, clipping
// and the checks of values do not see them.
struct Ignored {
  // Glob over the FQNs of parameters, or of modules above them: "head" is all of it.
  std::string pattern;
  // step() makes .grad the mean over all targets of all ranks, as engines have it, and
  // drops it where the step is skipped; false: it stays what this rank's passes added up.
  bool averaged = true;
};

// A mean that keeps more of itself in each step cannot fall in bf16, whose steps are
// about half a percent.
inline constexpr double kLargestBf16Beta = 0.99;

// Which Unit holders become units of their own; the others belong to their nearest unit.
struct AutoWrap {
  std::vector<std::string> types;  // class names ("BlockImpl"); empty: all
  int64_t min_numel = 0;           // with fewer parameters: merged into the nearest unit
};

// Where masters get their first values from.
enum class Source {
  // Deferred parameters follow Options::init, else what their modules do; those with
  // memory are taken from rank 0.
  kInit,
  // Rank 0 holds the whole model in memory and sends it; the other ranks' may be deferred
  // and then never have memory.
  kRank0,
  // Every rank holds the whole model and keeps its slice. Nothing is sent but hashes:
  // Error(kDiverged) names the ranks whose weights or buffers are not rank 0's.
  kEveryRank,
  // A checkpoint that is loaded before anything runs: nothing is initialised but what it
  // is allowed to lack, and that as with kInit. Buffers start as with kInit.
  kCheckpoint
};

// Options::shard_ranks: those of a host.
inline constexpr int kRanksOfHost = -1;

// Everything an Engine can be told. The first part changes results, the second only speed
// and memory.
struct Options {
  // --- behaviour
  uint64_t seed = 0;
  Source source = Source::kInit;
  OptimizerOptions optimizer;  // the learning rate comes from the schedule
  WeightDecayOn weight_decay_on = WeightDecayOn::kMatrices;
  LrSchedule schedule;
  double clip = 0;  // largest global gradient norm; 0: no clipping
  NormType norm = NormType::kL2;
  Unused unused = Unused::kZeros;
  // First match wins; a pattern that matches nothing is an error.
  std::vector<ParamGroup> groups;
  // Globs, any of which may match an FQN: these parameters are planned as trained ones,
  // whatever groups and requires_grad say, and are frozen until Engine::set_frozen()
  // thaws them. A pattern that matches nothing is an error.
  std::vector<std::string> thaws;
  // The same. Groups and units do not see them.
  std::vector<Ignored> ignored;
  // How deferred parameters start: what a function makes of its module's, else what the
  // first rule says that matches, else what the constructor did. Where a checkpoint
  // follows, functions are called for what it lacks; where a full model is there, never.
  InitFunction param_init;           // top-down, once for each module that owns any
  std::vector<InitType> init_types;  // instead of it, proved to cover all
  InitRules init;
  // Afterwards, unless a checkpoint gives values, on every rank: full parameters and
  // buffers may be read and set through the engine.
  std::function<void(Engine&, torch::nn::Module&)> post_init;
  bool init_report = false;  // measure first values: Engine::init_report()
  // Of weights and activations inside units: fp32, bf16 or fp16; masters are always fp32.
  // In fp16 the loss is scaled, and a step whose gradient overflows is skipped.
  DType dtype = DType::kFp32;
  LossScaleOptions loss_scale;        // of dtype fp16
  DType reduce_dtype = DType::kFp32;  // of gradients on the wire; sums are fp32
  // Of the step's finished gradient, which the norm and the optimizer read; sums are
  // fp32, and rounded once. bf16 takes 2 bytes instead of 4 where a step has one
  // backward().
  DType grad_dtype = DType::kFp32;
  // Split takes 2 bytes a parameter less and loses nothing, but ties round away from zero
  // in the copy. Needs dtype bf16; what computes in fp32 stays as it is.
  MasterStorage master = MasterStorage::kFp32;
  // Of the optimizer's state in memory; bf16 takes half of it, rounded once a step.
  // Checkpoints hold fp32. Refused where a step would change less than bf16 can tell:
  // Adagrad, and betas or momentum above kLargestBf16Beta.
  DType state_dtype = DType::kFp32;
  // What frozen parameters are kept in, instead of masters: rounded to it once. A unit
  // that computes in this type reads them as they are, one that does not has them made
  // into its type whenever it is gathered. kFp32: masters; kInt8: about 1 byte a
  // parameter, in blocks of 128 that share a factor (base/dtype.h). What stays in fp32 is
  // kept so. For inference all parameters are kept in it where it is what they are
  // computed with in.
  DType frozen_dtype = DType::kFp32;
  std::vector<UnitOption> unit_options;
  double nominal_targets = 1;  // backward runs on loss_sum / nominal_targets (see
                               // Engine::backward): micro-batch times sequence length is
                               // a good value
  // Let GPUs take fp32 factors of products at 10 bits (TF32), which is faster.
  bool tf32 = false;
  // The same bits on 1, 2, 4, ... ranks; needs a power of two of them. On GPUs LibTorch
  // then computes with deterministic operators alone.
  bool deterministic = false;

  // backward() calls between two step() calls: sizes what accumulation needs.
  int64_t micro_batches_per_rank = 1;

  // Forward only: no moments, no gradients in memory; step() throws.
  bool inference = false;

  // Engine::average_buffers() at the end of each step.
  bool average_buffers_each_step = false;
  // With Accumulate::kUnit: let units change buffers (batch norm) once per micro-batch.
  bool micro_batches_change_buffers = false;
  // Let zero::BatchNorm2d and its sisters normalise the batch of all ranks together while
  // training (see zero/batch_norm.h). Refused for a model with batch norms of torch::nn,
  // or with none.
  bool sync_batch_norm = false;

  // --- speed and memory
  // Neighbouring ranks that gather weights from each other (see zero/mesh.h); 0: all.
  // Divides the number of ranks. With fewer, less travels between hosts, and each rank
  // holds more of the weights. Masters and the optimizer's state are sharded over all
  // ranks, whatever this is. Micro-batches are dealt as Mesh::micro_batch says; with
  // `deterministic` the bits are those of one rank.
  int shard_ranks = 0;
  DeviceChoice device = DeviceChoice::kAuto;
  // Let ranks compute on one GPU where there are fewer than ranks.
  bool share_gpu = false;
  // Bytes of a GPU's memory that its ranks may take, the engine and LibTorch together; 0:
  // what there is. Error(kEnvironment) where that does not suffice.
  int64_t device_memory = 0;
  // Changes no bit. kNone needs AdamW; both others than kAll need GPUs that ranks do not
  // share, or NCCL that serves several ranks of one.
  Offload offload = Offload::kAll;
  // Changes no bit. Where a GPU's gradients of several passes are added up whose states
  // are the host's: there, or on the GPU, which takes 4 bytes a parameter and sends each
  // gradient once a step.
  GradSums grad_sums = GradSums::kHost;
  // Shards of the first units lie on the GPU as with Offload::kNone, each unit that
  // together with those before holds no more than this share of the parameters that are
  // trained. In [0, 1]; above 0 as kNone.
  double device_state_fraction = 0;
  // Changes no bit. Bytes of the host's memory in which a rank keeps what masters and
  // states of units would be behind the next update, made while backward is at other
  // units. A step whose gradient is not clipped takes them; else they are made again.
  // Units in forward order, each that has room. Needs overlap_updates.
  int64_t speculate_bytes = 0;
  // Changes no bit. kTransfers takes no more of what a host lets programs pin than it
  // must.
  Pin pin = Pin::kAll;
  // Update each unit just before the next forward needs it; false: all inside step().
  bool overlap_updates = true;
  int prefetch = 1;                   // units gathered ahead
  bool reshard_after_forward = true;  // false: weights stay gathered for backward and for
                                      // later micro-batches
  Recompute recompute = Recompute::kUnit;
  // Keep the inputs of recomputed units in pinned memory of the host, from their forward
  // to one unit before their backward. For a device with memory of its own, a GPU.
  bool offload_activations = false;
  int64_t offload_min_bytes = 64 << 10;  // smaller inputs stay on the device
  Accumulate accumulate = Accumulate::kModel;
  // With Accumulate::kUnit: rows of a kernel pass (see zero::batched in unit.h).
  int64_t micro_batch = 0;
  AutoWrap auto_wrap;
  int adam_threads = 0;  // of the optimizer; 0: every core this process may use

  // --- for tests
  // Random delays in every stream, released buffers filled with NaN.
  uint64_t chaos_seed = 0;
  // Gather through the ring even where one rank could use its masters in place, or ranks
  // of a host could share frozen weights.
  bool stream_always = false;
  std::string trace_comm;  // a file for one line per collective: "seq op tag bytes"
};

}  // namespace zero

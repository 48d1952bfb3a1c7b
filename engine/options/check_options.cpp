#include "engine/options/check_options.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/text.h"
#include "engine/comm/choose_gpu.h"
#include "zero/errors.h"

namespace zero {
namespace {

using OptionProblems = std::vector<OptionProblem>;

void refuse_if(bool is_wrong, OptionProblems& found, std::vector<std::string> options,
               std::string what, std::string allowed = "") {
  if (is_wrong)
    found.push_back({std::move(options), std::move(what), std::move(allowed)});
}

// One option, which has a range.
template <class T>
void require(bool holds, OptionProblems& found, const std::string& option, const T& value,
             const std::string& allowed) {
  refuse_if(!holds, found, {option}, text_of(option, " is ", value), allowed);
}

void check_schedule(const LrSchedule& s, OptionProblems& found) {
  using Kind = LrSchedule::Kind;
  constexpr const char* kNames[] = {"constant", "linear", "cosine", "wsd"};
  constexpr float kLargest = std::numeric_limits<float>::max();
  refuse_if(!(s.lr >= 0 && s.lr <= kLargest), found, {"schedule.lr"},
            text_of("lr is ", s.lr), text_of("a number from 0 to ", kLargest));
  refuse_if(!(s.min_lr >= 0), found, {"schedule.min_lr"}, text_of("min_lr is ", s.min_lr),
            "0 to lr");
  refuse_if(s.min_lr > s.lr, found, {"schedule.lr", "schedule.min_lr"},
            text_of("min_lr ", s.min_lr, " is above lr ", s.lr), "0 to lr");
  refuse_if(s.warmup_steps < 0, found, {"schedule.warmup_steps"},
            text_of("warmup_steps is ", s.warmup_steps), "0 or more");
  refuse_if(s.decay_steps < 0, found, {"schedule.decay_steps"},
            text_of("decay_steps is ", s.decay_steps), "0 or more");
  refuse_if(s.decay_steps > 0 && s.kind != Kind::kWsd, found,
            {"schedule.decay_steps", "schedule.kind"},
            text_of("decay_steps belongs to schedule wsd, not to ",
                    kNames[static_cast<int>(s.kind)]));
  if (s.kind == Kind::kConstant || s.warmup_steps < 0) return;
  refuse_if(s.total_steps <= 0, found, {"schedule.total_steps"},
            text_of("total_steps is ", s.total_steps),
            "1 or more, as this schedule ends");
  const int64_t most = s.total_steps - s.warmup_steps;
  refuse_if(most < 0, found,
            {"schedule.warmup_steps", "schedule.total_steps", "schedule.kind"},
            text_of("warmup_steps ", s.warmup_steps, " is above steps ", s.total_steps),
            "0 to steps");
  refuse_if(
      s.kind == Kind::kWsd && most >= 0 && s.decay_steps > most, found,
      {"schedule.decay_steps", "schedule.warmup_steps", "schedule.total_steps",
       "schedule.kind"},
      text_of("decay_steps ", s.decay_steps, " is above steps - warmup_steps = ", most));
}

// "weight_decay is -1, must be in [0, 3.4e38]" -> optimizer.weight_decay
std::string option_of(const std::string& problem) {
  const std::string name = problem.substr(0, problem.find(' '));
  return name == "lr"               ? "schedule.lr"
         : name.starts_with("beta") ? "optimizer.betas"
                                    : "optimizer." + name;
}

// Of a group; of all others with nullptr.
void check_update(OptimizerOptions optimizer, double lr, double weight_decay,
                  const ParamGroup* group, OptionProblems& found) {
  const std::string whose = group ? "parameter group '" + group->pattern + "': " : "";
  std::vector<std::string> options = {"schedule.lr", "optimizer.weight_decay"};
  if (group) options = {"groups"};
  optimizer.weight_decay = weight_decay;
  try {
    check(optimizer, lr);
    refuse_if(!(lr * weight_decay < 1e30), found, options,
              whose + "learning rate times weight decay is beyond what a float holds");
  } catch (const std::invalid_argument& error) {
    if (!group) options = {option_of(error.what())};
    found.push_back({options, whose + error.what(), ""});
  }
}

// Groups have what is wrong with all others, too: it is told once.
void check_updates(const Options& options, double lr, OptionProblems& found) {
  const double decay = options.optimizer.weight_decay;
  const size_t before = found.size();
  check_update(options.optimizer, lr, decay, nullptr, found);
  if (found.size() > before) return;
  for (const ParamGroup& group : options.groups)
    check_update(options.optimizer, lr * group.lr_scale,
                 group.weight_decay.value_or(decay), &group, found);
}

void check_type(const std::string& name, DType type, std::initializer_list<DType> known,
                OptionProblems& found) {
  std::string names;
  for (const DType each : known)
    names += (names.empty() ? "" : " or ") + std::string(name_of(each));
  require(std::ranges::count(known, type) > 0, found, name, name_of(type), names);
}

void check_gradient_type(const std::string& name, DType type, OptionProblems& found) {
  require(type == DType::kFp32 || type == DType::kBf16, found, name, name_of(type),
          kTypesOfGradients);
}

void check_types(const Options& options, OptionProblems& found) {
  check_type("dtype", options.dtype, {DType::kFp32, DType::kBf16, DType::kFp16}, found);
  check_gradient_type("reduce_dtype", options.reduce_dtype, found);
  check_gradient_type("grad_dtype", options.grad_dtype, found);
  check_type("state_dtype", options.state_dtype, {DType::kFp32, DType::kBf16}, found);
  check_type("frozen_dtype", options.frozen_dtype,
             {DType::kFp32, DType::kBf16, DType::kFp16, DType::kInt8}, found);
}

void check_loss_scale(const Options& options, OptionProblems& found) {
  const LossScaleOptions& scale = options.loss_scale;
  const auto check = [&](int64_t LossScaleOptions::*member, const std::string& name) {
    const int64_t value = scale.*member;
    const bool is_scale = member != &LossScaleOptions::window;
    refuse_if(options.dtype != DType::kFp16 && value != LossScaleOptions().*member, found,
              {"loss_scale." + name, "dtype"},
              text_of("loss_scale_", name, " belongs to dtype fp16, not to ",
                      name_of(options.dtype)));
    const auto near = std::bit_floor(
        static_cast<uint64_t>(std::clamp<int64_t>(value, 1, kLargestLossScale)));
    refuse_if(
        is_scale ? !is_loss_scale(value) : value < 1, found, {"loss_scale." + name},
        text_of("loss_scale_", name, " is ", value),
        is_scale
            ? text_of("powers of two, as others would round gradients; nearest: ", near)
            : "1 step or more");
  };
  check(&LossScaleOptions::init, "init");
  check(&LossScaleOptions::window, "window");
  check(&LossScaleOptions::min, "min");
  refuse_if(
      scale.min > scale.init, found, {"loss_scale.min", "loss_scale.init"},
      text_of("loss_scale_min ", scale.min, " is above loss_scale_init ", scale.init));
}

void check_storage(const Options& options, OptionProblems& found) {
  refuse_if(options.master == MasterStorage::kSplit && options.dtype != DType::kBf16,
            found, {"master", "dtype"},
            text_of("master split belongs to dtype bf16, which is its high half, not to ",
                    name_of(options.dtype)));
  refuse_if(options.speculate_bytes > 0 && !options.overlap_updates, found,
            {"speculate_bytes", "overlap_updates"}, "speculation without overlap_updates",
            "overlap_updates true");
  if (options.state_dtype == DType::kFp32) return;
  const OptimizerOptions& optimizer = options.optimizer;
  const bool is_sgd = optimizer.kind == Optimizer::kSgd,
             is_adagrad = optimizer.kind == Optimizer::kAdagrad;
  refuse_if(is_adagrad, found, {"state_dtype", "optimizer.kind"},
            "state_dtype bf16 for adagrad", "fp32: in bf16 its sum would stop growing");
  const double kept =
      is_sgd ? optimizer.momentum : std::max(optimizer.beta1, optimizer.beta2);
  refuse_if(
      !is_adagrad && kept > kLargestBf16Beta, found,
      {"state_dtype", is_sgd ? "optimizer.momentum" : "optimizer.betas"},
      text_of("state_dtype bf16 with ", is_sgd ? "momentum " : "betas of up to ", kept),
      "0.99 or less: in bf16 such a mean cannot fall; or state_dtype fp32");
}

void check_offload(const Options& options, int world_size, UnitMemory where,
                   OptionProblems& found) {
  const double fraction = options.device_state_fraction;
  const bool is_none = options.offload == Offload::kNone;
  const bool is_place = options.offload != Offload::kAll, is_share = fraction > 0;
  const std::string place = is_none ? "offload none" : "offload optimizer";
  const bool is_host = is_of_host(where);
  refuse_if(is_host && is_place, found, {"offload", "device"},
            place + " is for a GPU, device is cpu: all is in the host's memory there");
  refuse_if(is_host && is_share, found, {"device_state_fraction", "device"},
            "device_state_fraction is for a GPU, device is cpu");
  const bool is_sum = options.grad_sums == GradSums::kDevice;
  refuse_if(is_host && is_sum, found, {"grad_sums", "device"},
            "grad_sums device is for a GPU, device is cpu", "grad_sums host");
  refuse_if(!is_host && !may_keep_shards(where, world_size) && is_sum, found,
            {"grad_sums", "share_gpu"},
            "grad_sums device where ranks add gradients up in the host's memory",
            "grad_sums host, or a GPU for each rank and NCCL");
  refuse_if(!is_host && !may_keep_shards(where, world_size) && (is_place || is_share),
            found, {"offload", "device_state_fraction", "share_gpu"},
            (is_place ? place : "a device_state_fraction") +
                " where ranks exchange weights through the host's memory",
            "offload all, or a GPU for each rank and NCCL");
  if (options.inference || gpus_update_with(options.optimizer.kind)) return;
  const std::string optimizer = name_of(options.optimizer.kind);
  refuse_if(
      is_share, found, {"device_state_fraction", "optimizer.kind"},
      "device_state_fraction belongs to adamw: GPUs update with that alone, not with " +
          optimizer);
  refuse_if(is_none, found, {"offload", "optimizer.kind"},
            "offload none belongs to adamw: GPUs update with that alone; optimizer keeps "
            "the state of " +
                optimizer + " in the host's memory");
}

// What holds for some units is as good as what holds for all.
void check_units(const Options& options, int world_size, UnitMemory where,
                 OptionProblems& found) {
  for (const UnitOption& option : options.unit_options) {
    const DType dtype = option.dtype.value_or(options.dtype);
    const bool may_be = dtype == DType::kFp32 || dtype == options.dtype ||
                        (dtype == DType::kBf16 && options.dtype == DType::kFp32);
    refuse_if(!may_be, found, {"unit_options", "dtype"},
              text_of("unit '", option.pattern, "' of dtype ", name_of(dtype),
                      " where dtype is ", name_of(options.dtype)),
              "fp32, or bf16 where dtype is fp32");
    if (!option.offload || *option.offload == options.offload) continue;
    Options of_unit = options;
    of_unit.offload = *option.offload;
    OptionProblems problems;
    check_offload(of_unit, world_size, where, problems);
    for (OptionProblem& problem : problems) {
      problem.options.emplace_back("unit_options");
      problem.what = "unit '" + option.pattern + "': " + problem.what;
      found.push_back(std::move(problem));
    }
  }
}

void check_activations(const Options& options, bool is_host, OptionProblems& found) {
  if (!options.offload_activations || options.inference) return;
  refuse_if(is_host, found, {"offload_activations", "device"},
            "offload_activations is for a GPU, device is cpu: inputs of units are in the "
            "host's memory already");
  refuse_if(options.recompute == Recompute::kNone, found,
            {"offload_activations", "recompute.every"},
            "offload_activations belongs to recompute unit or every:K, not to none: "
            "inputs are kept for recomputation alone");
}

void check_threads(const Options& options, OptionProblems& found) {
  const int threads = options.adam_threads;
  require(threads >= 0 && threads <= 4096, found, "adam_threads", threads,
          "0 (every core) to 4096");
}

void check_functions(const Options& options, OptionProblems& found) {
  const bool has_functions = options.param_init || !options.init_types.empty();
  const bool holds_values =
      options.source == Source::kRank0 || options.source == Source::kEveryRank;
  for (const auto& [pattern, spec] : options.init) {
    const std::string problem = problem_of(spec);
    refuse_if(!problem.empty(), found, {"init"},
              text_of("'", pattern, "' starts as ", to_string(spec)), problem);
  }
  refuse_if(has_functions && holds_values, found, {"param_init", "init_types", "source"},
            "init functions with a source that holds the model's values already",
            "leave param_init and init_types out; or Source::kInit, with a model that "
            "was built under zero::DeferredInit");
}

void check_numbers(const Options& options, OptionProblems& found) {
  const double fraction = options.device_state_fraction,
               targets = options.nominal_targets;
  const int64_t every = options.recompute.every, passes = options.micro_batches_per_rank;
  require(fraction >= 0 && fraction <= 1, found, "device_state_fraction", fraction,
          "from 0 to 1");
  require(every >= 0, found, "recompute.every", every,
          "1 (each unit), 2 (every second one), ..., or 0 (none)");
  require(options.offload_min_bytes >= 0, found, "offload_min_bytes",
          options.offload_min_bytes, "0 or more");
  require(options.clip >= 0, found, "clip", options.clip,
          "a number >= 0; 0 does not clip");
  require(options.device_memory >= 0, found, "device_memory", options.device_memory,
          "bytes of a GPU; 0: what it has");
  require(options.speculate_bytes >= 0, found, "speculate_bytes", options.speculate_bytes,
          "0 or more bytes");
  require(options.prefetch >= 0, found, "prefetch", options.prefetch, "0 or more units");
  require(targets > 1e-30 && targets < 1e30, found, "nominal_targets", targets,
          "a positive number, such as micro-batch times sequence length");
  require(passes >= 1, found, "micro_batches_per_rank", passes, "1 or more");
}

// Sums over groups are the top of the tree whose middle are the passes of each.
void check_groups(const Options& options, int world_size, OptionProblems& found) {
  const int group = options.shard_ranks;
  if (group == kRanksOfHost) return;  // an engine makes a number of it first
  const bool divides = group >= 0 && (group == 0 || world_size % group == 0);
  const std::string told = text_of("shard_over ", group);
  refuse_if(!divides, found, {"shard_ranks", "world_size"},
            text_of(told, " does not divide the ", world_size, " ranks"),
            "a number that does, or all (Options::shard_ranks = 0)");
  if (!divides || group == 0 || group == world_size) return;
  refuse_if(options.speculate_bytes > 0, found, {"speculate_bytes", "shard_ranks"},
            "speculate with " + told, "speculate off, or shard_over all");
  if (!options.deterministic) return;
  const auto passes = static_cast<uint64_t>(options.micro_batches_per_rank);
  refuse_if(!std::has_single_bit(passes), found,
            {"deterministic", "micro_batches_per_rank", "shard_ranks"},
            text_of("deterministic with ", told,
                    " works on 1, 2, 4, 8, ... passes of each rank, there are ", passes));
  refuse_if(options.reduce_dtype != DType::kFp32, found,
            {"deterministic", "reduce_dtype", "shard_ranks"},
            "deterministic with " + told + " and reduce_dtype bf16",
            "fp32: the sums of groups would be rounded once more");
}

void check_sums(const Options& options, int world_size, OptionProblems& found) {
  const bool is_unit_major = options.accumulate == Accumulate::kUnit;
  refuse_if(is_unit_major && options.micro_batch < 1, found,
            {"accumulate", "micro_batch"}, "accumulate unit without micro_batch",
            "the rows of a kernel pass, 1 or more");
  if (!options.deterministic) return;
  refuse_if(options.micro_batches_per_rank > 1 &&
                std::ranges::any_of(options.ignored, &Ignored::averaged),
            found, {"deterministic", "ignored", "micro_batches_per_rank"},
            "deterministic mode with gradients of ignored parameters that are averaged, "
            "and several passes",
            "micro_batches_per_rank 1: autograd adds passes up in another order than "
            "ranks share them out");
  refuse_if(is_unit_major, found, {"deterministic", "accumulate"},
            "deterministic mode with accumulate unit",
            "accumulate model: units add up their micro-batches in another order than "
            "ranks share them out");
  refuse_if(options.sync_batch_norm, found, {"deterministic", "sync_batch_norm"},
            "deterministic mode with sync_batch_norm",
            "one of them: what is normalised together grows with the number of ranks");
  // Sums over ranks are a tree of pairs, and only then is it a part of one rank's tree.
  refuse_if(
      !std::has_single_bit(static_cast<unsigned>(world_size)), found,
      {"deterministic", "world_size"},
      text_of("deterministic works on 1, 2, 4, 8, ... ranks, there are ", world_size));
}

void throw_first(const OptionProblems& problems) {
  if (problems.empty()) return;
  throw Error(ExitCode::kUsage, problems[0].what, "engine options", problems[0].allowed);
}

}  // namespace

bool gpus_update_with(Optimizer optimizer) { return optimizer == Optimizer::kAdamW; }

std::vector<OptionProblem> problems_of(const Options& options, int world_size,
                                       UnitMemory where) {
  const bool is_host = is_of_host(where);
  OptionProblems found;
  check_schedule(options.schedule, found);
  check_functions(options, found);
  check_threads(options, found);
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!(options.schedule.lr > kLargest))  // or it is told
    check_updates(options, options.schedule.lr, found);
  check_types(options, found);
  check_loss_scale(options, found);
  check_storage(options, found);
  check_numbers(options, found);
  check_offload(options, world_size, where, found);
  check_units(options, world_size, where, found);
  refuse_if(is_host && options.pin == Pin::kTransfers, found, {"pin", "device"},
            "pin transfers is for a GPU, device is cpu: nothing is pinned there");
  check_activations(options, is_host, found);
  check_groups(options, world_size, found);
  check_sums(options, world_size, found);
  return found;
}

void check(const Options& options, int world_size, UnitMemory where) {
  throw_first(problems_of(options, world_size, where));
}

void check_learning_rate(const Options& options, double lr) {
  OptionProblems found;
  check_updates(options, lr, found);
  throw_first(found);
}

int checked_threads(const Options& options) {
  OptionProblems found;
  check_threads(options, found);
  throw_first(found);
  return options.adam_threads;
}

}  // namespace zero

#pragma once

#include <string>
#include <vector>

#include "engine/comm/agreement.h"
#include "engine/plan/memory_plan.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

struct ScannedModel;
struct UnitPlan;

// One thing that an engine cannot work with.
struct OptionProblem {
  std::vector<std::string> options;  // between which it is, as "schedule.lr" is named in
                                     // Options; "world_size" is the number of ranks
  std::string what;                  // "min_lr 2 is above lr 1"
  std::string allowed;               // "0 to lr"; empty: `what` tells it
};

// What reduce_dtype and grad_dtype may be, and why fp16 is not there.
inline constexpr const char* kTypesOfGradients =
    "fp32 or bf16, which has the range of fp32 in the bytes of fp16: sums over ranks "
    "need no loss scale";

// Everything that keeps an engine on `world_size` ranks from working with these options
// where they compute.
std::vector<OptionProblem> problems_of(const Options& options, int world_size,
                                       UnitMemory where);

// Throw the first of them as Error(kUsage).
void check(const Options& options, int world_size, UnitMemory where);

// The same for a learning rate in place of the schedule's.
void check_learning_rate(const Options& options, double lr);

// Do GPUs update with it? The states of others stay in the host's memory.
bool gpus_update_with(Optimizer optimizer);

// Options::adam_threads, checked alone: an engine has its threads before it can check
// what follows from where it computes.
int checked_threads(const Options& options);

// Every option as a line of its name and value; of a function, whether there is one.
// Those that all ranks must be given alike,
Lines shared_lines(const Options& options);
// and those that each may have of its own.
Lines own_lines(const Options& options);

// Throw Error(kDiverged) on every rank, naming options and ranks, unless all ranks were
// given the same options and the same model. What may differ: threads, traces, chaos.
// Collective.
void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks);

// The same for what followed from them: the plan, and buffers as they are now, before the
// first step. Collective.
void require_same_start(const ScannedModel& model, const UnitPlan& plan, Ranks& ranks);

}  // namespace zero

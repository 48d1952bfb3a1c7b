#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "engine/engine_resources.h"
#include "zero/reports.h"

namespace zero {

class Engine;
class InitFunctions;

// The values of an engine's parameters and buffers: how they start, and how they are
// found by name and brought together.
class EngineValues {
 public:
  // Gives masters, copies and buffers their first values, or has them awaited, as
  // Options::source says. Collective.
  explicit EngineValues(EngineResources& own);

  // As Engine has them.
  bool are_awaited() const {
    return state_ == State::kAwaited || state_ == State::kMadeAnew;
  }
  void initialize(const std::vector<std::string>& patterns);
  const std::vector<InitEntry>& init_report() const;
  void average_buffers();
  at::Tensor averaged_buffer(const std::string& fqn);

  // Throws Error(kUsage) while they are awaited: masters are no values yet.
  void require_there(const std::string& call) const;
  // Masters were written. Returns true where post_init follows: all of them were
  // initialised instead of loaded.
  bool end_wait();
  void run_post_init(Engine& engine);
  // What post_init writes counts as a first value: throws Error(kUsage) for NaN. The
  // numbers of the report are those of before.
  void require_first_value(const std::string& fqn, const at::Tensor& value);
  // Makes copies in compute precision again, from masters at rest.
  void refresh_copies();

  size_t find(const std::string& fqn) const;  // index of the parameter
  // Where it lies: in this part, as this one of its layout's.
  struct Home {
    PartShard& shard;
    const FlatLayout& layout;
    int index;
  };
  Home home_of(size_t param) const;
  at::Tensor& buffer(const std::string& fqn);
  // The whole parameter from all ranks' shards: &PartShard::masters, or gradients.
  // Collective.
  using ValuesOf = StoredValues (PartShard::*)(int64_t begin, int64_t numel) const;
  at::Tensor gather_full(size_t param, ValuesOf values_of);

 private:
  enum class State {
    kAwaited,     // a checkpoint's will come
    kMadeAnew,    // all were initialised instead: post_init will follow
    kInPostInit,  // it writes some
    kThere
  };

  at::Tensor average_of(const at::Tensor& values, const std::string& fqn);
  std::vector<InitEntry> first_masters(InitFunctions& functions);
  void make_first(const std::vector<bool>& which);

  EngineResources& own_;
  State state_;
  // Until values are there: each parameter as the model had it.
  std::vector<at::Tensor> given_;
  std::vector<InitEntry> init_report_;
};

}  // namespace zero

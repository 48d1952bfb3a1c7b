#pragma once
#include <memory>
#include <string>

#include "engine/options.h"
#include "engine/step/backward_pass.h"
#include "engine/unit.h"
#include "engine/weight_streamer.h"

namespace zero {

// Run one unit of an attached engine: unshard, body, reshard, and the same in backward,
// with or without recompute.
class UnitRuntime : public UnitRunner, public std::enable_shared_from_this<UnitRuntime> {
 public:
  // `is_leaf`: holds no other unit; only leaves are recomputed.
  UnitRuntime(int unit, std::string fqn, const torch::nn::Module& module, bool is_leaf,
              const Options& options, WeightStreamer& weights, BackwardPass& pass);

  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<at::Tensor> inputs) override;

  // The engine is gone: calls and backwards throw.
  void detach() { is_attached_ = false; }

 private:
  friend struct UnitCall;
  friend struct UnitFunction;
  class Unsharded;  // scope in which the full weights are there
  void check_attached() const;
  int64_t num_chunks(const std::vector<at::Tensor>& inputs) const;

  const int unit_;
  const std::string fqn_;
  const torch::nn::Module& module_;
  const bool recomputes_;
  const at::ScalarType dtype_;
  const int64_t chunk_rows_;  // of a kernel pass; 0: the whole input at once
  WeightStreamer& weights_;
  BackwardPass& pass_;
  bool is_attached_ = true;
};

}  // namespace zero

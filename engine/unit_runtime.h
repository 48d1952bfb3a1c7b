#pragma once
#include <memory>
#include <string>

#include "engine/module_modes.h"
#include "engine/options.h"
#include "engine/phase.h"
#include "engine/step/backward_pass.h"
#include "engine/unit.h"
#include "engine/unit_buffers.h"
#include "engine/weight_streamer.h"

namespace zero {

// Run one unit of an attached engine: unshard, body, reshard, and the same in backward,
// with or without recompute.
//
// What a body does beside computing is learned from its first call with gradients, which
// builds its graph even where it is recomputed later: results that need no gradient,
// inputs changed in place. A unit that does neither, the usual case, runs without a graph
// from then on.
class UnitRuntime : public UnitRunner, public std::enable_shared_from_this<UnitRuntime> {
 public:
  // `is_leaf`: holds no other unit; only leaves are recomputed.
  UnitRuntime(int unit, std::string fqn, torch::nn::Module& module, bool is_leaf,
              const Options& options, const Phase& phase, WeightStreamer& weights,
              BackwardPass& pass);

  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<UnitInput> inputs) override;

  // The engine is gone: calls and backwards throw.
  void detach() { is_attached_ = false; }

 private:
  friend class UnitCall;
  void check_attached() const;
  at::Tensor cast(const at::Tensor& input) const;
  std::vector<at::Tensor> run_inference(const UnitBody& body,
                                        const std::vector<UnitInput>& inputs);
  std::vector<at::Tensor> run_without_grad(const UnitBody& body,
                                           const std::vector<at::Tensor>& inputs) const;

  WeightWatch watch_weights();
  void require_same_weights(const WeightWatch& watch);
  void require_same_buffers(const std::vector<at::Tensor>& copies);
  [[noreturn]] void refuse_changed_input(bool in_chunks) const;

  bool is_simple() const { return has_run_ && is_simple_; }
  bool may_change_inputs() const { return !has_run_ || changes_inputs_; }
  void learn(bool outputs_are_differentiable, bool changed_inputs);

  const int unit_;
  const std::string fqn_;
  const bool recomputes_;
  const at::ScalarType dtype_;
  const int64_t chunk_rows_;  // of a kernel pass; 0: the whole input at once
  const bool chunks_change_buffers_;
  const Phase& phase_;
  WeightStreamer& weights_;
  BackwardPass& pass_;
  const ModuleModes modes_;
  UnitBuffers buffers_;
  bool is_attached_ = true;
  bool has_run_ = false, is_simple_ = true, changes_inputs_ = false;
  bool has_compared_weights_ = false;
};

}  // namespace zero

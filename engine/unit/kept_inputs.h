#pragma once
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <vector>

#include "engine/weights/torch/activation_store.h"

namespace zero {

// What one call of a recomputed unit was given, until its backward starts from there: on
// the device, or where there is a store, in the host's memory.
class KeptInputs {
 public:
  // `store` may be null: then all stays on the device.
  explicit KeptInputs(ActivationStore* store) : store_(store) {}

  // Before the body runs: the inputs without their graphs, or copies of them.
  void keep(const std::vector<at::Tensor>& inputs, bool as_copies);
  // After it, when a backward may come: what may go out does.
  void offload(int64_t weights_version);

  // The first input that was changed in place since keep().
  std::optional<size_t> first_changed() const;

  // All of them, on the device; put_away() lets go of them until the next fetch(),
  // clear() for good.
  std::vector<at::Tensor> fetch();
  void put_away();
  void clear();

 private:
  struct Version {
    c10::VariableVersion counter;
    uint32_t then;
  };

  ActivationStore* const store_;
  Event ready_;                      // recorded when the inputs had their values
  std::vector<at::Tensor> tensors_;  // undefined: they went out
  std::vector<Version> versions_;
  std::unique_ptr<ActivationStore::Call> offloaded_;  // null: none did
};

}  // namespace zero

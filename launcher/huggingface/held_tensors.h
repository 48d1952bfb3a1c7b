#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "launcher/model.h"

// The tensors of a checkpoint, or of several that hold the parts of one model.
namespace zero::launcher {

struct HeldTensor {
  checkpoint::Reader* reader = nullptr;
  const checkpoint::StoredTensor* tensor = nullptr;
};

class HeldTensors {
 public:
  // Of step folders. Throws CheckpointError; Error(kUsage) for a tensor that two of them
  // have.
  explicit HeldTensors(const std::vector<std::string>& folders);

  const std::vector<std::string>& folders() const { return folders_; }
  const checkpoint::Manifest& manifest(size_t folder) const {
    return readers_[folder]->manifest();
  }
  // Sorted by name, as those of one checkpoint are.
  std::vector<HeldTensor> of_kind(checkpoint::Kind kind) const;

  // Throws Error(kUsage) that lists what a model of this config has and they do not.
  void require_all(const ModelFamily& family, const nlohmann::json& config) const;

 private:
  std::vector<std::string> folders_;
  std::vector<std::unique_ptr<checkpoint::Reader>> readers_;
};

}  // namespace zero::launcher

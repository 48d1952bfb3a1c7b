#pragma once
#include <memory>
#include <utility>

#include "zero/unit.h"

namespace zero {

// Hold a module as a unit of its own, or as a part of the unit around it.
//
//   embedding = MaybeUnit<torch::nn::EmbeddingImpl>(is_large, vocab, dim);
//   register_module("embedding", embedding.ptr());
//   x = embedding(tokens);
template <class Block>
class MaybeUnit {
 public:
  MaybeUnit() = default;
  template <class... Args>
  explicit MaybeUnit(bool is_unit, Args&&... args) {
    if (is_unit) {
      unit_ = Unit<Block>(std::forward<Args>(args)...);
      block_ = unit_.ptr();
    } else {
      block_ = std::make_shared<Block>(std::forward<Args>(args)...);
    }
  }

  template <class... Args>
  auto operator()(Args&&... args) {
    return unit_.is_empty() ? block_->forward(std::forward<Args>(args)...)
                            : unit_(std::forward<Args>(args)...);
  }
  Block* operator->() const { return block_.get(); }
  const std::shared_ptr<Block>& ptr() const { return block_; }

 private:
  Unit<Block> unit_;
  std::shared_ptr<Block> block_;
};

}  // namespace zero

#pragma once
#include <torch/torch.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tests/properties/case.h"
#include "zero/unit.h"

namespace zero::properties {

constexpr int64_t kRows = 4, kWidth = 3;

// What a body throws when its fuse has burnt down.
struct Burnt : std::exception {
  const char* what() const noexcept override { return "a body threw as the test asked"; }
};
struct Fuse {
  int left = -1;  // bodies to go before one throws; -1: none does
  void burn() {
    if (left >= 0 && left-- == 0) throw Burnt();
  }
};

// Numbers in (-1, 1) that depend on the key alone.
at::Tensor numbers(at::IntArrayRef shape, uint64_t key);

class NetImpl;

// What the nodes of one model share while it is made, and its fuse.
struct Parts {
  uint64_t key = 0;  // of first values
  bool may_draw = false;
  Fuse fuse;
  std::vector<at::Tensor> params;
  std::vector<std::shared_ptr<NetImpl>> modules;
};

// One node of a model and what is below it.
class NetImpl : public torch::nn::Module {
 public:
  NetImpl(const Node& node, const std::shared_ptr<Parts>& parts);
  at::Tensor forward(at::Tensor x, bool flip);

 private:
  at::Tensor add_param(const std::string& name, std::vector<int64_t> shape, double middle,
                       double spread);
  void add_leaf();
  void add_children(const std::vector<Node>& children);
  at::Tensor leaf(const at::Tensor& x, bool flip);
  at::Tensor call(const std::shared_ptr<NetImpl>& child, const at::Tensor& x, bool flip);
  at::Tensor sequence(at::Tensor x, bool flip);

  const Node node_;  // without children
  const std::shared_ptr<Parts> parts_;
  at::Tensor w_, b_, u_;
  torch::nn::BatchNorm1d norm_{nullptr};
  std::vector<std::shared_ptr<NetImpl>> children_;
};

// The model of a case: forward(x, c, flip) is the sum of its losses.
class RootImpl : public torch::nn::Module {
 public:
  explicit RootImpl(const Case& of, uint64_t key = 0);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& c, bool flip);
  Fuse& fuse() { return parts_->fuse; }

 private:
  const std::shared_ptr<Parts> parts_;
  std::shared_ptr<NetImpl> net_;
  at::Tensor head_;  // always trained, and alone in its group
};

// Of each parameter its first name and the tensor, in the module's order.
std::vector<std::pair<std::string, at::Tensor>> params_of(const torch::nn::Module& model);

}  // namespace zero::properties

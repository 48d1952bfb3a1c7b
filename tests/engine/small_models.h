// Models that several stories train.
#pragma once
#include "tests/engine/unit_contract.h"

namespace zero::testing {

// A unit's body: one parameter of three numbers.
struct ScaleImpl : torch::nn::Module {
  ScaleImpl() { w = register_parameter("w", values({3}, 0.5, 2)); }
  at::Tensor w;
};

struct AffineImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return x * w + 1; }
};

struct ReluImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return (x * w).relu_(); }
};

// A root with a parameter of its own, and two units.
struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    embed = register_parameter("embed", values({3, 3}));
    for (int i = 0; i < 2; ++i) units->push_back(Unit<ReluImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::matmul(x, embed);
    for (auto& unit : *units) y = unit.value()(y) + 0.1 * y;
    return y.pow(2).sum();
  }
  at::Tensor embed;
  UnitList<ReluImpl> units{std::make_shared<UnitListImpl<ReluImpl>>()};
};

}  // namespace zero::testing

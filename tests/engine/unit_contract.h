// The words of the stories about what a unit and an engine promise: small models, their
// plain twins, and errors by name.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/engine/training.h"
#include "zero/errors.h"
#include "zero/unit.h"

namespace zero::testing {

inline at::Tensor values(std::vector<int64_t> shape, double from = -1, double to = 1.3) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return torch::linspace(from, to, numel).view(shape);
}

// A model of one unit: forward(x) = its result, whatever the block makes of it.
template <class Block>
struct HolderImpl : torch::nn::Module {
  template <class... Args>
  explicit HolderImpl(Args... args) {
    if constexpr (sizeof...(Args) == 0) {
      unit = this->register_module("unit", Unit<Block>::make());
    } else {
      unit = this->register_module("unit", Unit<Block>(args...));
    }
  }
  template <class... Args>
  auto forward(Args&&... args) {
    return unit(std::forward<Args>(args)...);
  }
  Unit<Block> unit;
};

template <class Call>
std::string error_of(Call call, ExitCode code = ExitCode::kUsage) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "a foreign error: " << error.what();
    return error.what();
  }
  return "no error";
}

inline void expect_near(const at::Tensor& value, const at::Tensor& given) {
  const at::Tensor expected = given.is_sparse() ? given.to_dense() : given;
  EXPECT_TRUE(torch::allclose(value, expected, 1e-5, 1e-6)) << value << "\nexpected\n"
                                                            << expected;
}

class UnitContract : public ::testing::TestWithParam<std::tuple<int, Recompute>> {
 protected:
  UnitContract() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.schedule.lr = 0.1;
    options.recompute = std::get<1>(GetParam());
    options.chaos_seed = 3;
  }
  int ranks() const { return std::get<0>(GetParam()); }
  bool recomputes() const { return options.recompute == Recompute::kUnit; }

  // On every rank: a model made by `make` and its engine.
  template <class Make, class Body>
  void each_rank(Make make, Body body) {
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      auto model = make();
      Engine engine(model, options, std::move(comm));
      body(engine, model);
    });
  }

  // The loss of `run(model)` and the gradients of its parameters and of x equal those of
  // the plain module, twice in a row.
  template <class Make, class Run>
  void expect_plain_numbers(Make make, Run run) {
    each_rank(make, [&](Engine& engine, auto& model) {
      auto plain = make();
      for (int step = 0; step < 2; ++step) {
        const at::Tensor plain_x = values({4, 3}).requires_grad_();
        const at::Tensor plain_loss =
            run([&](auto&&... args) { return plain->forward(args...); }, plain_x);
        plain->zero_grad();
        plain_loss.backward();
        const at::Tensor x = values({4, 3}).requires_grad_();
        const at::Tensor loss =
            run([&](auto&&... args) { return engine.forward(model, args...); }, x);
        expect_near(loss, plain_loss);
        engine.backward(loss, 1);
        expect_near(x.grad(), plain_x.grad());
        for (const auto& item : plain->named_parameters()) {
          const at::Tensor grad = item.value().grad();
          expect_near(engine.full_gradient(item.key()),
                      grad.defined() ? grad : torch::zeros_like(item.value()));
        }
        engine.discard_gradients();
      }
    });
  }

  Options options;
};

// In its first forward alone a thread of the user's draws on the host: not in the
// recomputation of that.
template <class Module>
struct DisturbedImpl : Module {
  at::Tensor forward(const at::Tensor& x) {
    if (!was_disturbed) std::thread([] { torch::rand({3}); }).join();
    was_disturbed = true;
    return Module::forward(x);
  }
  bool was_disturbed = false;
};

}  // namespace zero::testing

#pragma once

#include <memory>
#include <string>

#include "base/no_copy.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace zero {

// While alive, tensors that this thread creates with empty, zeros, ones, full, rand,
// randn (as every torch::nn constructor does) have a shape and no memory. In-place
// operations on them (the constructor's initialisation) are remembered instead of run. A
// model of any size is built in a few megabytes:
//
//   std::shared_ptr<GptImpl> model;
//   { zero::DeferredInit guard; model = std::make_shared<GptImpl>(config); }
//   zero::Engine engine(model, options);        // each rank fills its own shard
//
// Reading a deferred tensor's values throws Error(kUsage) naming the operation.
class DeferredInit : NoCopy {
 public:
  DeferredInit();
  ~DeferredInit();

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// While alive, an operation of this thread that takes a deferred tensor throws
// Error(kUsage): `who` uses it by name.
class ForbidDeferred : NoCopy {
 public:
  explicit ForbidDeferred(std::string who);
  ~ForbidDeferred();

 private:
  const std::string who_;
  std::unique_ptr<DeferredInit> guard_;
};

bool is_deferred(const at::Tensor& tensor);

// Give a deferred tensor memory of its own and run what was remembered for it; others
// stay as they are. Random numbers come from torch's default generator, for each tensor
// anew.
void materialize(at::Tensor tensor);

// A scope at whose end a model has values: whatever was to initialise it inside (an
// engine, materialize(), functions of one's own) has left nothing out.
//
//   { zero::CheckInitialised check(model); zero::Engine engine(model, options); ... }
//
// Its end throws Error(kUsage) that lists all parameters and buffers that are deferred
// still, or have elements that nothing wrote. It is silent where another exception is on
// its way.
class CheckInitialised : NoCopy {
 public:
  explicit CheckInitialised(std::shared_ptr<torch::nn::Module> model);
  ~CheckInitialised() noexcept(false);

 private:
  const std::shared_ptr<torch::nn::Module> model_;
  const int num_exceptions_;
};

}  // namespace zero

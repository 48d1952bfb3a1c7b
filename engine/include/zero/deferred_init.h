#pragma once
#include <memory>
#include <string>

namespace at {
class Tensor;
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
class DeferredInit {
 public:
  DeferredInit();
  ~DeferredInit();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// While alive, an operation of this thread that takes a deferred tensor throws
// Error(kUsage): `who` uses it by name.
class ForbidDeferred {
 public:
  explicit ForbidDeferred(std::string who);
  ~ForbidDeferred();
  ForbidDeferred(const ForbidDeferred&) = delete;
  ForbidDeferred& operator=(const ForbidDeferred&) = delete;

 private:
  const std::string who_;
  std::unique_ptr<DeferredInit> guard_;
};

bool is_deferred(const at::Tensor& tensor);

// Give a deferred tensor memory of its own and run what was remembered for it; others
// stay as they are. Random numbers come from torch's default generator, for each tensor
// anew.
void materialize(at::Tensor tensor);

}  // namespace zero

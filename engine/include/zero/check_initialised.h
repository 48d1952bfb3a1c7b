#pragma once
#include <memory>

namespace torch::nn {
class Module;
}

namespace zero {

// A scope at whose end a model has values: whatever was to initialise it inside (an
// engine, materialize(), functions of one's own) has left nothing out.
//
//   { zero::CheckInitialised check(model); zero::Engine engine(model, options); ... }
//
// Its end throws Error(kUsage) that lists all parameters and buffers that are deferred
// still, or have elements that nothing wrote. It is silent where another exception is on
// its way.
class CheckInitialised {
 public:
  explicit CheckInitialised(std::shared_ptr<torch::nn::Module> model);
  ~CheckInitialised() noexcept(false);
  CheckInitialised(const CheckInitialised&) = delete;
  CheckInitialised& operator=(const CheckInitialised&) = delete;

 private:
  const std::shared_ptr<torch::nn::Module> model_;
  const int num_exceptions_;
};

}  // namespace zero

#pragma once
#include <torch/torch.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tests/engine/training.h"
#include "zero/deferred_init.h"
#include "zero/engine.h"

namespace zero::testing {

template <class Model, class... Args>
std::shared_ptr<Model> deferred(const Args&... args) {
  const DeferredInit guard;
  return std::make_shared<Model>(args...);
}

inline Options quiet_options() {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  return options;
}

// What `make()` starts with on so many ranks: full parameters and buffers by name, as
// rank 0 has them, which `look` may look at.
template <class Make, class Look>
std::map<std::string, at::Tensor> full_values(int ranks, const Options& options,
                                              const Make& make, const Look& look) {
  std::map<std::string, at::Tensor> values;
  std::mutex mutex;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    const auto model = make();
    Engine engine(model, options, std::move(comm));
    for (const auto& item : model->named_parameters()) {
      const at::Tensor full = engine.full_parameter(item.key());
      const std::scoped_lock lock(mutex);
      if (engine.rank() == 0) values[item.key()] = full.clone();
    }
    const std::scoped_lock lock(mutex);
    if (engine.rank() != 0) return;
    for (const auto& item : model->named_buffers())
      values[item.key()] = item.value().clone();
    look(engine);
  });
  return values;
}

}  // namespace zero::testing

#pragma once
#include <torch/torch.h>

#include <memory>
#include <string>

#include "zero/unit.h"

namespace zero {

// Make a unit of a module that was not made by zero::Unit: hook_of() knows it from now
// on, as long as it lives. It must be owned by a shared_ptr. Thread-safe.
std::shared_ptr<UnitHook> make_unit(torch::nn::Module& module);

// Have an entry of a torch::nn::Sequential called as the unit that its module is. `fqn`
// is for errors.
void call_as_unit(torch::nn::AnyModule& entry, std::shared_ptr<UnitHook> hook,
                  const std::string& fqn);

}  // namespace zero

#include "engine/unit/module_modes.h"

namespace zero {
namespace {

void add(torch::nn::Module& module, std::vector<torch::nn::Module*>& modules) {
  modules.push_back(&module);
  for (const auto& child : module.named_children()) add(*child.value(), modules);
}

}  // namespace

ModuleModes::ModuleModes(torch::nn::Module& root) { add(root, modules_); }

std::vector<bool> ModuleModes::current() const {
  std::vector<bool> modes;
  for (const torch::nn::Module* module : modules_) modes.push_back(module->is_training());
  return modes;
}

// train() sets all below a module as well: so parents come first.
void ModuleModes::set(const std::vector<bool>& modes) const {
  if (current() == modes) return;
  for (size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(modes[i]);
}

ModuleModes::Scope::Scope(const ModuleModes& modules, const std::vector<bool>& modes)
    : modules_(modules), now_(modules.current()) {
  modules_.set(modes);
}
ModuleModes::Scope::~Scope() { modules_.set(now_); }

}  // namespace zero

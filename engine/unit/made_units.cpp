#include "engine/unit/made_units.h"

#include <map>
#include <mutex>
#include <utility>

namespace zero {
namespace {

class MadeHook final : public UnitHook {
 public:
  bool keeps_graph() const override { return false; }
};

// A module has no place for a hook that would leave its names as they are. An address may
// be another module's later; what owns it is not.
class MadeUnits {
 public:
  std::shared_ptr<UnitHook> find(const std::weak_ptr<torch::nn::Module>& module) {
    const std::lock_guard lock(mutex_);
    const auto found = hooks_.find(module);
    return found == hooks_.end() ? nullptr : found->second;
  }
  std::shared_ptr<UnitHook> make(const std::weak_ptr<torch::nn::Module>& module) {
    const std::lock_guard lock(mutex_);
    std::erase_if(hooks_, [](const auto& entry) { return entry.first.expired(); });
    return hooks_[module] = std::make_shared<MadeHook>();
  }

 private:
  std::mutex mutex_;
  std::map<std::weak_ptr<torch::nn::Module>, std::shared_ptr<UnitHook>, std::owner_less<>>
      hooks_;
};

MadeUnits& made_units() {
  static auto* const units = new MadeUnits;  // modules may outlive static objects
  return *units;
}

}  // namespace

UnitHook* hook_of(torch::nn::Module& module) {
  if (auto* hook = dynamic_cast<UnitHook*>(&module)) return hook;
  return made_units().find(module.weak_from_this()).get();
}

std::shared_ptr<UnitHook> make_unit(torch::nn::Module& module) {
  return made_units().make(module.weak_from_this());
}

}  // namespace zero

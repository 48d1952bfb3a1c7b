#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zero/unit.h"

namespace zero {

// Which modules become units. All that is set must hold. Without types and names these
// are the smallest entries that hold `min_numel` parameters beside those of units inside.
struct WrapPolicy {
  // Class names without namespaces ("BlockImpl"). Every module of such a class becomes a
  // unit, also inside of others.
  std::vector<std::string> types = {};
  // Globs over FQNs below the module that is wrapped (* any text, ? any character): each
  // chooses the outermost entries that it matches.
  std::vector<std::string> names = {};
  // With fewer parameters a module stays with what is around it.
  int64_t min_numel = 0;
};

// Make units of entries of torch::nn::Sequential and torch::nn::ModuleList, at any depth
// below `module`, before an engine is made. Returns the FQNs of the units, in the
// module's order.
//
// Modules, parameters and names stay as they are. A Sequential calls its entry as a unit
// from then on; at<T>(i) and ptr<T>(i) of that entry throw, (*sequential)[i] does not. A
// ModuleList's owner must call its entries through units_of(). Without an engine, calls
// are plain forwards. Entries of a Sequential take and return, any number of them:
// tensors, an optional, vector, pair or tuple of tensors, what an LSTM does, numbers and
// strings.
//
// Throws Error(kUsage) that lists each module that cannot be a unit, and why; and for a
// type or name that no entry has, and a policy that makes no unit.
std::vector<std::string> wrap(torch::nn::Module& module, const WrapPolicy& policy);

// The same of a holder (torch::nn::Sequential) or a shared_ptr.
template <class Holder>
requires requires(Holder& holder) { static_cast<torch::nn::Module&>(*holder); }
std::vector<std::string> wrap(Holder&& model, const WrapPolicy& policy) {
  return wrap(static_cast<torch::nn::Module&>(*model), policy);
}

// An entry of a list, to be called as a zero::Unit is.
template <class Block>
class ListUnit {
 public:
  explicit ListUnit(std::shared_ptr<Block> block)
      : block_(std::move(block)), hook_(hook_of(*block_)) {}

  template <class... Args>
  auto operator()(Args&&... args) {
    return detail::call_unit(block_, hook_ ? hook_->runner.get() : nullptr,
                             std::forward<Args>(args)...);
  }
  Block* operator->() const { return block_.get(); }
  const std::shared_ptr<Block>& ptr() const { return block_; }

 private:
  std::shared_ptr<Block> block_;
  UnitHook* hook_;  // null: no unit; a call is a plain forward
};

namespace detail {
[[noreturn]] void refuse_entry(const torch::nn::Module& entry, size_t index,
                               const std::type_info& expected);
}

// The entries of a list whose owner calls them itself:
//
//   for (auto& block : zero::units_of<BlockImpl>(blocks)) x = block(x);
//
// Entries that are no units are called as they are. Throws Error(kUsage) for an entry of
// another class.
template <class Block>
std::vector<ListUnit<Block>> units_of(const torch::nn::ModuleListImpl& list) {
  std::vector<ListUnit<Block>> units;
  for (const std::shared_ptr<torch::nn::Module>& entry : list) {
    auto block = std::dynamic_pointer_cast<Block>(entry);
    if (!block) detail::refuse_entry(*entry, units.size(), typeid(Block));
    units.emplace_back(std::move(block));
  }
  return units;
}
template <class Block>
std::vector<ListUnit<Block>> units_of(const torch::nn::ModuleList& list) {
  return units_of<Block>(*list);
}

}  // namespace zero

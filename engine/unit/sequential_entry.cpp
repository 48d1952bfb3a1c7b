// Entries of a torch::nn::Sequential that are called as units: what stands in for their
// AnyModule.
#include <c10/util/Type.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/unit/made_units.h"
#include "zero/errors.h"

namespace zero {
namespace {

using torch::nn::AnyModule;
using torch::nn::AnyValue;

template <class... T>
struct Types {};
template <class T>
using TypesOf =
    Types<T, std::optional<T>, std::vector<T>, std::pair<T, T>, std::tuple<T>,
          std::tuple<T, T>, std::tuple<T, T, T>, std::tuple<T, T, T, T>,
          std::tuple<T, std::tuple<T, T>>, std::optional<std::tuple<T, T>>, bool, int,
          int64_t, float, double, std::string, std::vector<int64_t>>;
// What an AnyValue may hold for the engine to see its tensors.
using Carried = TypesOf<at::Tensor>;

// Returns whether the value's type is one of those.
template <class Visitor, class... Ts>
bool visit_any(AnyValue& value, Visitor& visitor, Types<Ts...>) {
  const auto visit = [&]<class One>(One* found) {
    if (found) visit_tensors(*found, visitor);
    return found != nullptr;
  };
  return (visit(value.try_get<Ts>()) || ...);
}

bool is_carried(AnyValue& value) {
  const auto ignore = [](at::Tensor&) {};
  return visit_any(value, ignore, Carried());
}

// Their number is known when they come.
template <size_t... I>
AnyValue forward_any(AnyModule& module, std::vector<AnyValue>& arguments,
                     std::index_sequence<I...>) {
  return module.any_forward(std::move(arguments[I])...);
}
constexpr size_t kMostArguments = 12;
template <size_t kCount = 0>
AnyValue forward_any(AnyModule& module, std::vector<AnyValue>& arguments) {
  if constexpr (kCount < kMostArguments) {
    if (arguments.size() != kCount) return forward_any<kCount + 1>(module, arguments);
  }
  return forward_any(module, arguments, std::make_index_sequence<kCount>());
}

}  // namespace

template <>
struct detail::TensorsOf<AnyValue> {
  static constexpr bool are_known = true;
  template <class Visitor>
  static void visit(AnyValue& value, Visitor& visitor) {
    visit_any(value, visitor, Carried());
  }
};

namespace {

// The entry as a block whose types are known when it is called.
class SequentialEntry : public torch::nn::Module {
 public:
  SequentialEntry(AnyModule module, std::shared_ptr<UnitHook> hook, std::string fqn)
      : module_(std::move(module)), hook_(std::move(hook)), fqn_(std::move(fqn)) {}

  // What the engine runs.
  AnyValue forward(std::vector<AnyValue> arguments) {
    AnyValue result = forward_any(module_, arguments);
    if (hook_->runner) require_carried(result, "returns");
    return result;
  }
  AnyValue call(std::vector<AnyValue> arguments) {
    const auto self = std::static_pointer_cast<SequentialEntry>(shared_from_this());
    if (arguments.size() > kMostArguments)
      reject("an entry with " + std::to_string(arguments.size()) + " arguments", fqn_,
             "it can be a unit with up to " + std::to_string(kMostArguments));
    if (hook_->runner) {
      for (AnyValue& argument : arguments) require_carried(argument, "takes");
    }
    return detail::call_unit(self, hook_->runner.get(), std::move(arguments));
  }
  std::shared_ptr<torch::nn::Module> module() const { return module_.ptr(); }
  std::shared_ptr<SequentialEntry> clone_entry(std::optional<c10::Device> device) const {
    AnyModule module = module_.clone(device);
    auto hook = make_unit(*module.ptr());
    return std::make_shared<SequentialEntry>(std::move(module), std::move(hook), fqn_);
  }

 private:
  void require_carried(AnyValue& value, const std::string& does) const {
    if (is_carried(value)) return;
    reject("a unit " + does + " a " + c10::demangle(value.type_info().name()) +
               ", whose tensors the engine cannot see in a torch::nn::Sequential",
           fqn_,
           "tensors, or an optional, vector, pair or tuple of them; or leave it out of "
           "zero::wrap()");
  }

  AnyModule module_;
  const std::shared_ptr<UnitHook> hook_;
  const std::string fqn_;
};

}  // namespace
}  // namespace zero

// Whatever a Sequential hands to an entry goes on as it is; the module that it owns, and
// registers, is the original one.
template <>
struct torch::nn::AnyModuleHolder<zero::SequentialEntry, std::vector<torch::nn::AnyValue>>
    final : torch::nn::AnyModulePlaceholder {
  explicit AnyModuleHolder(std::shared_ptr<zero::SequentialEntry> entry)
      : AnyModulePlaceholder(typeid(zero::SequentialEntry)), module(std::move(entry)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    return module->call(std::move(arguments));
  }
  std::shared_ptr<Module> ptr() override { return module->module(); }
  std::unique_ptr<AnyModulePlaceholder> copy() const override {
    return std::make_unique<AnyModuleHolder>(*this);
  }
  std::unique_ptr<AnyModulePlaceholder> clone_module(
      std::optional<Device> device) const override {
    return std::make_unique<AnyModuleHolder>(module->clone_entry(device));
  }

  std::shared_ptr<zero::SequentialEntry> module;
};

namespace zero {

void call_as_unit(AnyModule& entry, std::shared_ptr<UnitHook> hook,
                  const std::string& fqn) {
  entry = AnyModule(
      std::make_shared<SequentialEntry>(std::move(entry), std::move(hook), fqn));
}

}  // namespace zero

#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "zero/visit_tensors.h"

namespace zero {

// A unit's forward as the engine sees it: tensors in, tensors out. May run more than once
// (micro-batches, recompute).
using UnitBody = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// How a tensor argument takes part when a unit works through a batch in several
// micro-batches (Accumulate::kUnit): a part of its rows, or the whole each time.
enum class Rows { kUnmarked, kBatched, kShared };

struct UnitInput {
  at::Tensor tensor;
  Rows rows = Rows::kUnmarked;
};

// How an attached engine runs a unit: gather, run, release.
class UnitRunner {
 public:
  virtual ~UnitRunner() = default;
  virtual std::vector<at::Tensor> run(const UnitBody& body,
                                      std::vector<UnitInput> inputs) = 0;
};

// What a module made by zero::Unit carries beside its own class. Lives with the module
// and is shared by all holders.
class UnitHook {
 public:
  virtual ~UnitHook() = default;
  // Does the block ask that its graph is kept rather than made again in backward?
  virtual bool keeps_graph() const = 0;
  // Set while an engine is attached.
  std::shared_ptr<UnitRunner> runner;
  // Modules beside the unit's own whose parameters are the unit's, too:
  // Unit::take_along().
  std::vector<std::shared_ptr<torch::nn::Module>> companions;
};

// That of a module which zero::Unit made or zero::wrap() made a unit of; null: none. It
// lives as long as the module.
UnitHook* hook_of(torch::nn::Module& module);

namespace detail {

template <class Block>
class UnitModule final : public Block, public UnitHook {
 public:
  using Block::Block;
  bool keeps_graph() const override {
    if constexpr (requires { Block::kKeepsGraph; }) return Block::kKeepsGraph;
    return false;
  }
};

// An argument with a word on its rows.
template <class T>
struct Marked {
  T value;
  Rows rows;
};
template <class T>
inline constexpr bool is_marked = false;
template <class T>
inline constexpr bool is_marked<Marked<T>> = true;

template <class T>
Rows rows_of(const T& argument) {
  if constexpr (is_marked<T>) return argument.rows;
  return Rows::kUnmarked;
}

// What is kept of an argument until backward: a copy, of a text too.
template <class T>
using Kept = std::conditional_t<is_any_of<std::decay_t<T>, const char*, char*>,
                                std::string, std::decay_t<T>>;

// The defined tensors of a value, each replaced by an empty one, so that what is kept
// holds neither data nor graphs.
template <class T>
std::vector<at::Tensor> take_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&](at::Tensor& tensor) {
    if (!tensor.defined()) return;
    tensors.push_back(tensor);
    tensor = at::Tensor(at::empty({0}));
  });
  return tensors;
}

// The reverse: put tensors in the places of the defined ones. Returns the next tensor.
template <class T>
const at::Tensor* put_tensors(T& value, const at::Tensor* next) {
  visit_tensors(value, [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = *next++;
  });
  return next;
}

}  // namespace detail

// Say what a tensor argument of a unit is when the unit works through its batch in
// micro-batches (Accumulate::kUnit): its rows (dimension 0) are split, or all of it is
// used for each. A unit's first tensor is batched unless it is marked as shared; others
// that are unmarked must not have as many rows. Everywhere else the marks say nothing.
template <class T>
detail::Marked<std::decay_t<T>> batched(T&& value) {
  return {std::forward<T>(value), Rows::kBatched};
}
template <class T>
detail::Marked<std::decay_t<T>> shared(T&& value) {
  return {std::forward<T>(value), Rows::kShared};
}

// An argument without its mark, as forward() takes it: what stands in for a unit calls
// `block->forward(unmarked(std::forward<Args>(args))...)`.
template <class T>
decltype(auto) unmarked(T&& argument) {
  if constexpr (detail::is_marked<std::decay_t<T>>) {
    return (std::forward<T>(argument).value);
  } else {
    return std::forward<T>(argument);
  }
}

// Say inside a unit's forward how the values of a result from several micro-batches
// become one: `return zero::sum_of_chunks(loss);`. Unmarked results are joined row by
// row, and must have the rows of their micro-batch. The tensor itself is returned.
at::Tensor sum_of_chunks(const at::Tensor& result);
at::Tensor mean_of_chunks(const at::Tensor& result);
at::Tensor same_in_chunks(const at::Tensor& result);

namespace detail {

// Run what a unit computes by the engine's runner, on copies of its arguments.
template <class Result, class Forward, class... Args>
Result run_unit(const Forward& forward, UnitRunner& runner, Args&&... args) {
  using Arguments = std::tuple<Kept<decltype(unmarked(std::forward<Args>(args)))>...>;
  const std::array<Rows, sizeof...(Args)> rows{rows_of(args)...};
  auto arguments = std::make_shared<Arguments>(unmarked(std::forward<Args>(args))...);
  std::vector<UnitInput> inputs;
  size_t index = 0;
  const auto add = [&](auto& argument) {
    for (at::Tensor& tensor : take_tensors(argument))
      inputs.push_back({std::move(tensor), rows[index]});
    ++index;
  };
  std::apply([&](auto&... argument) { (add(argument), ...); }, *arguments);

  auto result = std::make_shared<std::optional<Result>>();
  const UnitBody body = [forward, arguments,
                         result](const std::vector<at::Tensor>& tensors) {
    auto call = *arguments;
    put_tensors(call, tensors.data());
    // Arguments are handed over: what forward changes about a copy would be lost.
    Result value = std::apply(
        [&](auto&... argument) { return forward(std::move(argument)...); }, call);
    std::vector<at::Tensor> outputs = take_tensors(value);
    result->emplace(std::move(value));
    return outputs;
  };
  const std::vector<at::Tensor> outputs = runner.run(body, std::move(inputs));
  Result value = std::move(**result);
  result->reset();
  put_tensors(value, outputs.data());
  return value;
}

// Call a function as a unit; as it is without a runner.
template <class Forward, class... Args>
auto call_as_unit(const Forward& forward, UnitRunner* runner, Args&&... args) {
  using Result = std::decay_t<decltype(forward(unmarked(std::forward<Args>(args))...))>;
  static_assert(!std::is_void_v<Result>,
                "zero::Unit: forward must return what it computes");
  static_assert(
      requires(Kept<decltype(unmarked(std::forward<Args>(args)))> & ... kept) {
        forward(std::move(kept)...);
      },
      "zero::Unit: forward must take its arguments by value or by const reference: the "
      "engine runs it on copies, and what it assigned to the caller's would be lost");
  static_assert(TensorsOf<Result>::are_known,
                "zero::Unit: the engine cannot see the tensors in what forward returns, "
                "and would lose their gradients: use optional, vector, array, map, "
                "pair or tuple, or give the struct a member "
                "`void visit_tensors(auto&& visit) { visit(a); ... }`");
  if (!runner) return Result(forward(unmarked(std::forward<Args>(args))...));
  return run_unit<Result>(forward, *runner, std::forward<Args>(args)...);
}

// Call a block as a unit; a plain forward without a runner.
template <class Block, class... Args>
auto call_unit(const std::shared_ptr<Block>& block, UnitRunner* runner, Args&&... args) {
  const auto forward = [block](auto&&... argument)
      -> decltype(block->forward(std::forward<decltype(argument)>(argument)...)) {
    return block->forward(std::forward<decltype(argument)>(argument)...);
  };
  return call_as_unit(forward, runner, std::forward<Args>(args)...);
}

}  // namespace detail

// Hold a module whose parameters travel together: gathered before its forward and
// backward, released after.
//
// Acts as torch::nn::ModuleHolder<Block>; FQNs are those of the block. Without an engine
// a call is a plain forward, so the same model runs unsharded.
//
//   zero::Unit<BlockImpl> block;                                   // empty
//   block = register_module("block", zero::Unit<BlockImpl>(dim));  // built
//   x = block(x);
//
// A call takes and returns what visit_tensors.h lists, and any number of tensors in it;
// what a unit may do otherwise is told in docs/library.md. It may be called several
// times. A block with a member `static constexpr bool kKeepsGraph = true` is one whose
// activations are small or wanted at once, such as an embedding or the last layer:
// Options::recompute passes it by.
template <class Block>
class Unit : public torch::nn::ModuleHolder<Block> {
  using Base = torch::nn::ModuleHolder<Block>;

 public:
  Unit() : Base(nullptr) {}
  /* implicit */ Unit(std::nullptr_t) : Base(nullptr) {}
  // As register_module returns it. Throws c10::Error if the module was not made by a
  // Unit.
  /* implicit */ Unit(std::shared_ptr<Block> module) : Base(std::move(module)) {
    TORCH_CHECK(!this->impl_ || dynamic_cast<UnitHook*>(this->impl_.get()),
                "zero::Unit must make its module itself: pass constructor arguments, not "
                "a module");
  }
  template <class Head, class... Tail>
  requires(!std::is_convertible_v<std::decay_t<Head>, std::shared_ptr<Block>> &&
           !std::is_base_of_v<Unit, std::decay_t<Head>>) explicit Unit(Head&& head,
                                                                       Tail&&... tail)
      : Base(std::shared_ptr<Block>(std::make_shared<detail::UnitModule<Block>>(
            std::forward<Head>(head), std::forward<Tail>(tail)...))) {}
  // For a block whose constructor takes nothing.
  static Unit make() {
    return Unit(std::shared_ptr<Block>(std::make_shared<detail::UnitModule<Block>>()));
  }

  template <class... Args>
  auto operator()(Args&&... args) {
    return detail::call_unit(this->ptr(), hook().runner.get(),
                             std::forward<Args>(args)...);
  }

  // Call the unit with another body than its forward: forward(args...), as a lambda of
  // what is around the unit. It is kept and may run again until its backward is done.
  template <class Forward, class... Args>
  auto run(const Forward& forward, Args&&... args) {
    return detail::call_as_unit(forward, hook().runner.get(),
                                std::forward<Args>(args)...);
  }

  // Let a module that is registered elsewhere in the model travel with this unit: its
  // parameters are gathered and released with the unit's, and their names stay. Only the
  // unit's bodies may use it. Before an engine is made, which throws Error(kUsage) for
  // one that is not in the model, is a unit, or travels with another unit.
  void take_along(std::shared_ptr<torch::nn::Module> module) {
    hook().companions.push_back(std::move(module));
  }

 private:
  UnitHook& hook() { return dynamic_cast<UnitHook&>(*this->get()); }
};

// An ordered list of units whose names stay when others are erased: erasing "1" leaves
// "0" and "2".
template <class Block>
class UnitListImpl : public torch::nn::Module {
 public:
  // Append under the name after the highest ever used.
  Unit<Block> push_back(Unit<Block> unit) {
    return insert(std::to_string(next_name_), std::move(unit));
  }

  // Append under a name of one's own.
  Unit<Block> insert(const std::string& name, Unit<Block> unit) {
    register_module(name, unit);
    units_.insert(name, unit);
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
      next_name_ = std::max<int64_t>(next_name_, std::stoll(name) + 1);
    }
    return unit;
  }

  void erase(const std::string& name) {
    unregister_module(name);
    units_.erase(name);
  }

  Unit<Block>& operator[](const std::string& name) { return units_[name]; }
  bool contains(const std::string& name) const { return units_.contains(name); }
  int64_t size() const { return static_cast<int64_t>(units_.size()); }
  auto begin() { return units_.begin(); }  // items have key() and value()
  auto end() { return units_.end(); }

 private:
  torch::OrderedDict<std::string, Unit<Block>> units_;
  int64_t next_name_ = 0;
};

template <class Block>
class UnitList : public torch::nn::ModuleHolder<UnitListImpl<Block>> {
 public:
  using torch::nn::ModuleHolder<UnitListImpl<Block>>::ModuleHolder;
};

}  // namespace zero

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

namespace zero {

// A unit's forward as the engine sees it: tensors in, tensors out. May run twice
// (recompute).
using UnitBody = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// How an attached engine runs a unit: gather, run, release.
class UnitRunner {
 public:
  virtual ~UnitRunner() = default;
  virtual std::vector<at::Tensor> run(const UnitBody& body,
                                      std::vector<at::Tensor> inputs) = 0;
};

// What a module made by zero::Unit carries beside its own class. Lives with the module
// and is shared by all holders.
class UnitHook {
 public:
  virtual ~UnitHook() = default;
  std::shared_ptr<UnitRunner> runner;  // set while an engine is attached and the holder
                                       // was not merged away
};

namespace detail {

template <class Block>
class UnitModule final : public Block, public UnitHook {
 public:
  using Block::Block;
};

// Move the defined tensors of a value (a tensor, or optionals, vectors, pairs, tuples of
// them) out into a list; put_back fills the same places in the same order. Other types
// pass through untouched.
template <class T>
void take_out(T&, std::vector<at::Tensor>&) {}
template <class T>
void put_back(T&, const at::Tensor*&) {}

inline void take_out(at::Tensor& value, std::vector<at::Tensor>& out) {
  if (value.defined()) out.push_back(value);
}
template <class T>
void take_out(std::optional<T>& value, std::vector<at::Tensor>& out) {
  if (value) take_out(*value, out);
}
template <class T>
void take_out(std::vector<T>& values, std::vector<at::Tensor>& out) {
  for (T& value : values) take_out(value, out);
}
template <class... T>
void take_out(std::tuple<T...>& values, std::vector<at::Tensor>& out) {
  std::apply([&](T&... value) { (take_out(value, out), ...); }, values);
}
template <class A, class B>
void take_out(std::pair<A, B>& values, std::vector<at::Tensor>& out) {
  take_out(values.first, out);
  take_out(values.second, out);
}

inline void put_back(at::Tensor& value, const at::Tensor*& next) {
  if (value.defined()) value = *next++;
}
template <class T>
void put_back(std::optional<T>& value, const at::Tensor*& next) {
  if (value) put_back(*value, next);
}
template <class T>
void put_back(std::vector<T>& values, const at::Tensor*& next) {
  for (T& value : values) put_back(value, next);
}
template <class... T>
void put_back(std::tuple<T...>& values, const at::Tensor*& next) {
  std::apply([&](T&... value) { (put_back(value, next), ...); }, values);
}
template <class A, class B>
void put_back(std::pair<A, B>& values, const at::Tensor*& next) {
  put_back(values.first, next);
  put_back(values.second, next);
}

// Stands where a tensor was taken out, so that a stored call keeps no graph alive.
at::Tensor placeholder();

template <class T>
void replace_by_placeholders(T& value) {
  std::vector<at::Tensor> tensors;
  take_out(value, tensors);
  const std::vector<at::Tensor> holes(tensors.size(), placeholder());
  const at::Tensor* next = holes.data();
  put_back(value, next);
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
// A call takes tensors, optionals, vectors, pairs and tuples of tensors, and any copyable
// values beside them; it returns a tensor or a vector, pair or tuple of tensors. A unit
// may be called several times.
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
    Block& block = *this->get();
    auto* hook = dynamic_cast<UnitHook*>(&block);
    using Result = std::decay_t<decltype(block.forward(std::forward<Args>(args)...))>;
    if (!hook->runner) return Result(block.forward(std::forward<Args>(args)...));

    auto arguments =
        std::make_shared<std::tuple<std::decay_t<Args>...>>(std::forward<Args>(args)...);
    std::vector<at::Tensor> inputs;
    detail::take_out(*arguments, inputs);
    detail::replace_by_placeholders(*arguments);
    auto result = std::make_shared<std::optional<Result>>();
    UnitBody body = [module = this->ptr(), arguments,
                     result](const std::vector<at::Tensor>& tensors) {
      auto call = *arguments;
      const at::Tensor* next = tensors.data();
      detail::put_back(call, next);
      Result value =
          std::apply([&](auto&... arg) { return module->forward(arg...); }, call);
      std::vector<at::Tensor> outputs;
      detail::take_out(value, outputs);
      detail::replace_by_placeholders(value);
      result->emplace(std::move(value));
      return outputs;
    };
    const std::vector<at::Tensor> outputs = hook->runner->run(body, std::move(inputs));
    Result value = std::move(**result);
    const at::Tensor* next = outputs.data();
    detail::put_back(value, next);
    return value;
  }
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

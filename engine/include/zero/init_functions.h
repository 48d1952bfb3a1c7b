#pragma once
#include <functional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

namespace at {
struct Generator;
}
namespace torch::nn {
class Module;
}

namespace zero {

// What an init function is given: a module built under DeferredInit, whose own parameters
// and buffers are full and may be written, and random numbers. `generator` and torch's
// default generator, which torch::nn::init draws from, are keyed by (seed, FQN): the
// function makes the same values on every rank, and on any number of them.
struct InitCall {
  const std::string& fqn;  // "" for the root
  torch::nn::Module& module;
  at::Generator& generator;
};

// Has the function written all parameters that are its own, or are those that it left
// alone for the next in line: Options::init, then what the constructor did?
enum class InitDone { kAll, kLeftRest };
using InitFunction = std::function<InitDone(const InitCall&)>;

// A function for modules of one class, which initialises all that is below them, too.
struct InitType {
  const std::type_info* type;
  std::function<bool(const torch::nn::Module&)> is_one;
  InitFunction init;
};

//   options.init_types = {
//       zero::init_type<AttentionImpl>([](AttentionImpl& m, const zero::InitCall&) {
//         m.reset_parameters();
//       }), ...};
template <class Module, class Init>
InitType init_type(Init init) {
  const auto is_one = [](const auto& module) {
    if constexpr (std::is_same_v<std::decay_t<decltype(module)>, Module>)
      return true;
    else
      return dynamic_cast<const Module*>(&module) != nullptr;
  };
  return {&typeid(Module), is_one, [init](const InitCall& call) {
            init(dynamic_cast<Module&>(call.module), call);
            return InitDone::kAll;
          }};
}

}  // namespace zero

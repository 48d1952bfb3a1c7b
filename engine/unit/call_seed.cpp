#include "engine/unit/call_seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <map>
#include <mutex>

#include "base/hash.h"
#include "engine/comm/thread_ranks.h"
#include "offload/random.h"

namespace zero {
namespace {

void add(torch::nn::Module& module, std::vector<torch::nn::Module*>& modules) {
  modules.push_back(&module);
  for (const auto& child : module.named_children()) add(*child.value(), modules);
}

}  // namespace

uint64_t forward_seed(uint64_t seed, int64_t num_steps, uint64_t micro_batch,
                      bool has_gradients, uint64_t number) {
  const uint64_t step_key =
      hash_key(hash_key(seed, "forward"), static_cast<uint64_t>(num_steps));
  const uint64_t key = hash_key(step_key, micro_batch);
  if (!has_gradients) return hash_key(hash_key(key, "without gradients"), number);
  return number == 0 ? key : hash_key(key, number);
}

struct CallSeed::Scope {
  uint64_t seed = 0;
  bool draws = false;
  c10::Device device;
  std::vector<at::Tensor> caller_states;      // of generators_on(device)
  std::map<std::string, uint64_t> num_calls;  // of inner units, by FQN
  Scope* outer = nullptr;
};

namespace {

thread_local void* innermost = nullptr;

std::vector<at::Generator> generators_on(c10::Device device) {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  if (!device.is_cpu())
    generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

}  // namespace

CallSeed::CallSeed(const std::string& fqn) {
  auto* outer = static_cast<Scope*>(innermost);
  if (!outer) return;
  enter(hash_key(hash_key(outer->seed, fqn), outer->num_calls[fqn]++), outer->draws,
        outer->device);
}

CallSeed::CallSeed(uint64_t seed, bool draws, c10::Device device) {
  enter(seed, draws, device);
}

CallSeed::~CallSeed() {
  if (!scope_) return;
  if (scope_->draws) {
    auto state = scope_->caller_states.begin();
    for (at::Generator generator : generators_on(scope_->device)) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(*state++);
    }
  }
  innermost = scope_->outer;
  delete scope_;
}

uint64_t CallSeed::seed() const { return scope_ ? scope_->seed : 0; }
bool CallSeed::draws() const { return scope_ && scope_->draws; }

uint64_t CallSeed::end_state() const {
  if (!draws() || ranks_are_threads()) return 0;
  uint64_t all = 0;
  for (at::Generator generator : generators_on(scope_->device)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const at::Tensor state = generator.get_state();
    all = hash_key(all, hash_of(state.const_data_ptr(), state.nbytes()));
  }
  return all;
}

void CallSeed::enter(uint64_t seed, bool draws, c10::Device device) {
  scope_ = new Scope{seed, draws, device, {}, {}, static_cast<Scope*>(innermost)};
  innermost = scope_;
  if (!draws) return;
  for (at::Generator generator : generators_on(device)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    scope_->caller_states.push_back(generator.get_state());
    generator.set_current_seed(seed);
  }
}

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

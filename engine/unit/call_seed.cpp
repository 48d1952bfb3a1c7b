#include "engine/unit/call_seed.h"

#include <ATen/CPUGeneratorImpl.h>

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

thread_local CallSeed* innermost = nullptr;

std::vector<at::Generator> generators_on(c10::Device device) {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  if (!device.is_cpu())
    generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
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

CallSeed::CallSeed(const std::string& fqn) : outer_(innermost) {
  if (!outer_) return;
  enter(hash_key(hash_key(outer_->seed_, fqn), outer_->num_calls_[fqn]++), outer_->draws_,
        outer_->device_);
}

CallSeed::CallSeed(uint64_t seed, bool draws, c10::Device device) : outer_(innermost) {
  enter(seed, draws, device);
}

CallSeed::~CallSeed() {
  innermost = outer_;
  if (!draws_) return;
  auto state = caller_states_.begin();
  for (at::Generator generator : generators_on(device_)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(*state++);
  }
}

uint64_t CallSeed::end_state() const {
  if (!draws_ || ranks_are_threads()) return 0;
  uint64_t all = 0;
  for (at::Generator generator : generators_on(device_)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const at::Tensor state = generator.get_state();
    all = hash_key(all, hash_of(state.const_data_ptr(), state.nbytes()));
  }
  return all;
}

void CallSeed::enter(uint64_t seed, bool draws, c10::Device device) {
  seed_ = seed;
  draws_ = draws;
  device_ = device;
  innermost = this;
  if (!draws) return;
  for (at::Generator generator : generators_on(device)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    caller_states_.push_back(generator.get_state());
    generator.set_current_seed(seed);
  }
}

ModuleModes::ModuleModes(const std::vector<torch::nn::Module*>& roots) {
  for (torch::nn::Module* root : roots) add(*root, modules_);
}

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

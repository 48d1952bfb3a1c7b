#include "engine/init/replay.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "offload/random.h"
#include "zero/errors.h"

namespace zero {
namespace {

// FQNs have no '/', so that these are nobody's.
std::string name_of_draw(const RecordedCall& call) {
  const std::string& name = call.drawn_for->name;
  return call.draw == 0 ? name : name + "//" + std::to_string(call.draw);
}

// Values from which this one was made, itself included, nearest first.
template <class Visit>
void visit_sources(const ValuePtr& value, const Visit& visit) {
  std::set<const RecordedValue*> seen;
  std::vector<const RecordedValue*> waiting{value.get()};
  while (!waiting.empty()) {
    const RecordedValue* next = waiting.back();
    waiting.pop_back();
    if (!next || !seen.insert(next).second) continue;
    visit(*next);
    waiting.push_back(next->before.get());
    if (!next->call) continue;
    for (const c10::IValue& argument : next->call->arguments) {
      for (const at::Tensor& tensor : tensors_in(argument))
        waiting.push_back(recorded_value(tensor).get());
    }
  }
}

bool is_whole(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.nbytes() == tensor.storage().nbytes();
}

// What an in-place call makes of all elements of its target; nothing for other calls.
std::optional<InitSpec> spec_of(const RecordedCall& call) {
  const std::string& name = call.op.schema().name();
  const auto number = [&](size_t i) { return call.arguments[i].toScalar().toDouble(); };
  if (name == "aten::zero_") return zeros();
  if (name == "aten::fill_" && call.arguments[1].isScalar()) return constant(number(1));
  if (name == "aten::normal_") return normal(number(1), number(2));
  if (name == "aten::uniform_") return uniform(number(1), number(2));
  return {};
}

// Give it a range that is zero, unless it has another one already.
bool add_zeros(InitSpec& spec, const at::Tensor& target) {
  if (!target.is_contiguous() || spec.zero_row_begin >= 0) return false;
  spec.zero_row_begin = target.storage_offset();
  spec.zero_row_end = target.storage_offset() + target.numel();
  return true;
}

at::Tensor view_of(const c10::Storage& storage, const at::Tensor& geometry) {
  return at::empty({0}, geometry.options())
      .set_(storage, geometry.storage_offset(), geometry.sizes(), geometry.strides());
}

void require_unchanged(const RecordedCall& call) {
  for (const auto& [tensor, version] : call.others) {
    if (tensor.is_inference() || tensor._version() == version) continue;
    reject("a tensor was changed after " + call.op.schema().name() +
               " had taken it, and that call has yet to run",
           "inside zero::DeferredInit", "give the call a clone()");
  }
}

std::mutex& generator_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void name_deferred(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  for (const auto& [name, tensor] : named) {
    const ValuePtr value = recorded_value(tensor);
    if (value && value->variable->name.empty()) value->variable->name = name;
  }
  for (const auto& [name, tensor] : named) {
    int64_t num_helpers = 0;
    visit_sources(recorded_value(tensor), [&, &name = name](const RecordedValue& value) {
      if (value.variable->name.empty())
        value.variable->name = name + "/" + std::to_string(num_helpers++);
    });
  }
}

std::optional<RecordedSpec> recorded_spec(const at::Tensor& deferred) {
  if (deferred.scalar_type() != at::kFloat || !is_whole(deferred)) return {};
  std::vector<at::Tensor> zeroed;
  const ValuePtr last = recorded_value(deferred);
  for (const RecordedValue* value = last.get(); value && value->call && value->before;
       value = value->before.get()) {
    const RecordedCall& call = *value->call;
    const std::optional<InitSpec> spec = spec_of(call);
    if (!spec || value->place != 0) return {};
    const at::Tensor target = call.arguments[0].toTensor();
    if (target.scalar_type() != at::kFloat) return {};  // another view of the bytes
    const bool is_zero = spec->kind == InitSpec::Kind::kConstant && spec->a == 0;
    if (is_whole(target)) {
      RecordedSpec result{*spec, call.drawn_for ? name_of_draw(call) : ""};
      for (const at::Tensor& part : zeroed) {
        if (!add_zeros(result.spec, part)) return {};
      }
      return result;
    }
    if (!is_zero) return {};
    zeroed.push_back(target);
  }
  return {};
}

bool draws_random_numbers(const ValuePtr& value) {
  bool draws = false;
  visit_sources(value, [&](const RecordedValue& source) {
    draws |= source.call && source.call->drawn_for;
  });
  return draws;
}

Replay::Key Replay::key_of(const RecordedValue& value) {
  if (value.call) return {value.call.get(), value.place};
  return {&value, 0};
}

// From the oldest value on, so that long chains need no deep stack.
c10::Storage Replay::storage_of(const ValuePtr& value) {
  std::vector<const RecordedValue*> chain;
  for (const RecordedValue* v = value.get(); v && !storages_.contains(key_of(*v));
       v = v->before.get())
    chain.push_back(v);
  for (auto v = chain.rbegin(); v != chain.rend(); ++v) {
    if (storages_.contains(key_of(**v))) continue;  // of the same call
    if ((*v)->call)
      run(*(*v)->call);
    else
      storages_[key_of(**v)] = start_of(**v);
  }
  return storages_.at(key_of(*value));
}

at::Tensor Replay::values_of(const at::Tensor& deferred) {
  const c10::impl::ExcludeDispatchKeyGuard no_recording(c10::DispatchKey::DeferredInit);
  const torch::NoGradGuard no_grad;
  return view_of(storage_of(recorded_value(deferred)), deferred);
}

void Replay::give_memory(const at::Tensor& deferred) {
  const c10::impl::ExcludeDispatchKeyGuard no_recording(c10::DispatchKey::DeferredInit);
  const torch::NoGradGuard no_grad;
  give_storage(deferred, [&] {
    c10::Storage storage = storage_of(recorded_value(deferred));
    storages_.clear();
    return storage;
  });
}

c10::Storage Replay::start_of(const RecordedValue& value) {
  c10::Storage storage = unwritten_storage(value.num_bytes, value.is_floating);
  if (value.memory && value.num_bytes > 0)
    std::memcpy(storage.mutable_data(), value.memory->get(), value.num_bytes);
  return storage;
}

// A storage with that value, to be changed. It is made again if the value as it was is
// wanted once more: never by the call that changes it, which took all it takes at once.
c10::Storage Replay::storage_to_change(const ValuePtr& value) {
  c10::Storage storage = storage_of(value);
  storages_.erase(key_of(*value));
  return storage;
}

void Replay::draw(const RecordedCall& call, const at::Tensor& target,
                  torch::jit::Stack& stack) {
  const bool is_named = seed_ && !call.drawn_for->name.empty();
  const std::optional<InitSpec> spec = spec_of(call);
  if (!is_named) {
    call.op.callBoxed(&stack);
  } else if (spec && target.scalar_type() == at::kFloat && is_whole(target)) {
    fill(*spec, *seed_, name_of_draw(call), 0,
         {target.mutable_data_ptr<float>(), static_cast<size_t>(target.numel())});
    stack = {target};
  } else {
    const SeededGenerator seeded(hash_key(*seed_, name_of_draw(call)));
    call.op.callBoxed(&stack);
  }
}

void Replay::run(const RecordedCall& call) {
  require_unchanged(call);
  const auto& arguments = call.op.schema().arguments();
  std::map<const RecordedValue*, c10::Storage> used;
  std::vector<c10::Storage> results;
  for (size_t i = 0; call.is_mutable && i < arguments.size(); ++i) {
    if (!arguments[i].alias_info() || !arguments[i].alias_info()->isWrite()) continue;
    for (const at::Tensor& tensor : tensors_in(call.arguments[i])) {
      const ValuePtr value = recorded_value(tensor);
      if (!used.contains(value.get())) used[value.get()] = storage_to_change(value);
      results.push_back(used[value.get()]);
    }
  }
  std::vector<ValuePtr> read;
  const auto real = [&](const at::Tensor& tensor) {
    const ValuePtr value = recorded_value(tensor);
    if (!value) return tensor;
    if (!call.is_mutable) read.push_back(value);
    if (!used.contains(value.get())) used[value.get()] = storage_of(value);
    return view_of(used[value.get()], tensor);
  };
  torch::jit::Stack stack;
  for (const c10::IValue& argument : call.arguments)
    stack.push_back(with_tensors(argument, real));
  try {
    if (call.drawn_for)
      draw(call, stack.front().isTensor() ? stack.front().toTensor() : at::Tensor(),
           stack);
    else
      call.op.callBoxed(&stack);
  } catch (const c10::Error& error) {
    reject(call.op.schema().name() +
               " of a constructor cannot run: " + error.what_without_backtrace(),
           call.drawn_for ? call.drawn_for->name : "inside zero::DeferredInit",
           "give the parameter an InitSpec (Options::init)");
  }
  if (!call.is_mutable) {
    for (const c10::IValue& result : stack) {
      for (const at::Tensor& tensor : tensors_in(result)) {
        const bool is_own =
            is_whole(tensor) && !std::ranges::any_of(used, [&](const auto& u) {
              return u.second.unsafeGetStorageImpl() ==
                     tensor.storage().unsafeGetStorageImpl();
            });
        results.push_back((is_own ? tensor : tensor.clone()).storage());
      }
    }
  }
  for (size_t place = 0; place < results.size(); ++place)
    storages_[{&call, place}] = results[place];
  // What nobody else can ask for: the snapshot and `read` alone know it.
  for (const ValuePtr& value : read) {
    if (value.use_count() == 2) storages_.erase(key_of(*value));
  }
}

int64_t num_unwritten(const at::Tensor& values) {
  const auto size = static_cast<size_t>(values.element_size());
  const std::vector<char> pattern(
      size, static_cast<char>(unwritten_byte(values.is_floating_point())));
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  int64_t count = 0;
  for (int64_t i = 0; i < values.numel(); ++i)
    count +=
        std::memcmp(bytes + i * static_cast<int64_t>(size), pattern.data(), size) == 0;
  return count;
}

bool has_unwritten(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided &&
         tensor.element_size() > 1 && num_unwritten(tensor.detach().contiguous()) > 0;
}

SeededGenerator::SeededGenerator(uint64_t seed) {
  generator_mutex().lock();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  before_ = generator.get_state();
  generator.set_current_seed(seed);
}

SeededGenerator::~SeededGenerator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(before_);
  generator_mutex().unlock();
}

}  // namespace zero

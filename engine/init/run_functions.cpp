#include "engine/init/run_functions.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Type.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <set>

#include "engine/init/recorded_value.h"
#include "engine/init/replay.h"
#include "offload/random.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero {

struct InitFunctions::Task {
  std::string fqn;
  torch::nn::Module* module;
  const InitFunction* init;
  std::vector<size_t> params = {}, buffers = {};  // its own
  bool has_run = false;
};

namespace {

std::string class_of(const torch::nn::Module& module) {
  return c10::demangle(typeid(module).name());
}

std::string owner_in(const std::string& fqn) {
  const size_t dot = fqn.rfind('.');
  return dot == fqn.npos ? "" : fqn.substr(0, dot);
}

bool is_inside(const std::string& fqn, const std::string& module) {
  return module.empty() || fqn == module || fqn.starts_with(module + ".");
}

std::string shown(const std::string& module) {
  return module.empty() ? "the model itself" : module;
}

std::string option_of(const Options& options) {
  return options.param_init ? "Options::param_init" : "Options::init_types";
}

// Full memory for deferred parameters, nothing of it written, as long as this lives.
class FullMemory : NoCopy {
 public:
  FullMemory(const ScannedModel& model, const std::vector<size_t>& params)
      : model_(model), params_(params) {
    for (const size_t param : params_) {
      const at::Tensor& tensor = model_.tensors[param];
      deferred_.push_back(tensor.storage());
      if (is_deferred(tensor))
        tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(
            unwritten_storage(tensor.storage().nbytes(), tensor.is_floating_point()));
    }
  }
  ~FullMemory() {
    for (size_t i = 0; i < params_.size(); ++i)
      model_.tensors[params_[i]].unsafeGetTensorImpl()->set_storage_keep_dtype(
          deferred_[i]);
  }

 private:
  const ScannedModel& model_;
  const std::vector<size_t>& params_;
  std::vector<c10::Storage> deferred_;
};

std::vector<uint32_t> versions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<uint32_t> versions;
  for (const at::Tensor& tensor : tensors)
    versions.push_back(tensor.is_inference() ? 0 : tensor._version());
  return versions;
}

}  // namespace

InitFunctions::InitFunctions(const ScannedModel& model, const Options& options,
                             bool are_called)
    : model_(model),
      options_(options),
      of_param_(model.params.size()),
      of_buffer_(model.buffers.size()),
      buffer_writer_(model.buffers.size()),
      num_exceptions_(std::uncaught_exceptions()) {
  if (!are_called) return;
  if (options.param_init && !options.init_types.empty())
    reject("both param_init and init_types", "Options", "one of them");
  if (options.param_init) add_each_module();
  if (!options.init_types.empty()) add_types();
}

InitFunctions::~InitFunctions() {
  if (std::uncaught_exceptions() == num_exceptions_) return;
  for (const auto& [buffer, deferred] : given_buffers_)
    take_storage_back(buffer, deferred);
}

void InitFunctions::own(Task& task, bool with_descendants) {
  const size_t index = tasks_.size();
  const auto is_own = [&](const std::string& fqn) {
    return with_descendants ? is_inside(owner_in(fqn), task.fqn)
                            : owner_in(fqn) == task.fqn;
  };
  for (size_t i = 0; i < of_param_.size(); ++i) {
    if (of_param_[i] || !is_own(model_.params[i].fqn)) continue;
    of_param_[i] = index;
    task.params.push_back(i);
  }
  for (size_t i = 0; i < of_buffer_.size(); ++i) {
    if (of_buffer_[i]) continue;
    const auto* impl = model_.buffers[i].unsafeGetTensorImpl();
    const auto known = task_of_buffer_.find(impl);  // registered in two places
    if (known != task_of_buffer_.end()) of_buffer_[i] = known->second;
    if (of_buffer_[i] || !is_own(model_.buffer_fqns[i])) continue;
    task_of_buffer_[impl] = index;
    of_buffer_[i] = index;
    task.buffers.push_back(i);
  }
}

void InitFunctions::add_each_module() {
  std::set<torch::nn::Module*> seen;
  for (const auto& item : model_.root().named_modules()) {
    if (!seen.insert(item.value().get()).second) continue;
    Task task{item.key(), item.value().get(), &options_.param_init};
    own(task, /*with_descendants=*/false);
    if (!task.params.empty() || !task.buffers.empty()) tasks_.push_back(std::move(task));
  }
}

void InitFunctions::add_types() {
  std::set<torch::nn::Module*> seen;
  std::vector<std::string> overlaps;
  for (const auto& item : model_.root().named_modules()) {
    torch::nn::Module& module = *item.value();
    if (!seen.insert(&module).second) continue;
    std::vector<const InitType*> types;
    for (const InitType& type : options_.init_types) {
      if (type.is_one(module)) types.push_back(&type);
    }
    if (types.empty()) continue;
    const auto name_of = [](const InitType& type) {
      return c10::demangle(type.type->name());
    };
    const auto around = std::ranges::find_if(
        tasks_, [&](const Task& task) { return is_inside(item.key(), task.fqn); });
    if (types.size() > 1)
      overlaps.push_back(shown(item.key()) + " is both " + name_of(*types[0]) + " and " +
                         name_of(*types[1]));
    else if (around != tasks_.end())
      overlaps.push_back(shown(item.key()) + " (" + name_of(*types[0]) +
                         ") lies inside " + shown(around->fqn) + " (" +
                         class_of(*around->module) + ")");
    Task task{item.key(), &module, &types.front()->init};
    own(task, /*with_descendants=*/true);
    tasks_.push_back(std::move(task));
  }
  if (!overlaps.empty()) {
    std::string list;
    for (const std::string& overlap : overlaps) list += "\n  - " + overlap;
    reject("init_types would initialise twice:" + list, "Options::init_types",
           "types of which none holds another, and no module is two");
  }
  require_coverage();
}

void InitFunctions::require_coverage() const {
  std::string list;
  const auto modules = model_.root().named_modules();
  const auto add = [&](const std::string& fqn) {
    const auto* owner = modules.find(owner_in(fqn));
    list += "\n  - " + fqn + (owner ? " of " + class_of(**owner) : "");
  };
  for (size_t i = 0; i < of_param_.size(); ++i) {
    if (!of_param_[i]) add(model_.params[i].fqn);
  }
  for (size_t i = 0; i < of_buffer_.size(); ++i) {
    if (!of_buffer_[i]) add(model_.buffer_fqns[i]);
  }
  if (!list.empty())
    reject("no type of init_types covers:" + list, "Options::init_types",
           "add types that hold them");
}

std::vector<at::Tensor> InitFunctions::tensors_of_others(const Task& task) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    if (std::ranges::count(task.params, i) == 0) tensors.push_back(model_.tensors[i]);
  }
  const auto mine = static_cast<size_t>(&task - tasks_.data());
  for (size_t i = 0; i < model_.buffers.size(); ++i) {
    if (of_buffer_[i] != mine) tensors.push_back(model_.buffers[i]);
  }
  return tensors;
}

void InitFunctions::run(Task& task) {
  task.has_run = true;
  ran_last_ = static_cast<size_t>(&task - tasks_.data());
  results_.clear();
  const torch::NoGradGuard no_grad;
  const FullMemory memory(model_, task.params);
  for (const size_t buffer : task.buffers) {
    if (!is_deferred(model_.buffers[buffer])) continue;
    given_buffers_.emplace_back(model_.buffers[buffer], model_.buffers[buffer].storage());
    Replay(options_.seed).give_memory(model_.buffers[buffer]);
  }
  std::vector<at::Tensor> own_buffers;
  for (const size_t buffer : task.buffers) own_buffers.push_back(model_.buffers[buffer]);
  const std::vector<uint32_t> before = versions_of(own_buffers);
  const std::vector<at::Tensor> others = tensors_of_others(task);
  const std::vector<uint32_t> others_before = versions_of(others);

  const std::string key = task.fqn + "//init";
  at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(hash_key(options_.seed, key + "/own"));
  InitDone done{};
  {
    const SeededGenerator seeded(hash_key(options_.seed, key));
    const ForbidDeferred forbid("the init function of " + shown(task.fqn));
    try {
      done = (*task.init)({task.fqn, *task.module, generator});
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
      reject(of_torch ? of_torch->what_without_backtrace() : error.what(),
             "the init function of " + shown(task.fqn), "look at what it does there");
    }
  }

  require_unchanged(task, others, others_before);
  const std::vector<uint32_t> after = versions_of(own_buffers);
  for (size_t i = 0; i < task.buffers.size(); ++i) {
    if (after[i] != before[i]) buffer_writer_[task.buffers[i]] = ran_last_;
  }
  keep_values(task, done);
}

void InitFunctions::require_unchanged(const Task& task,
                                      const std::vector<at::Tensor>& others,
                                      const std::vector<uint32_t>& others_before) const {
  const std::vector<uint32_t> others_after = versions_of(others);
  for (size_t i = 0; i < others.size(); ++i) {
    if (others_after[i] == others_before[i]) continue;
    const auto is_it = [&](const at::Tensor& tensor) {
      return tensor.is_same(others[i]);
    };
    const auto param = std::ranges::find_if(model_.tensors, is_it);
    const auto buffer = std::ranges::find_if(model_.buffers, is_it);
    reject("the init function of " + shown(task.fqn) + " writes " +
               (param != model_.tensors.end()
                    ? model_.params[param - model_.tensors.begin()].fqn
                    : model_.buffer_fqns[buffer - model_.buffers.begin()]),
           option_of(options_), "write the module's own parameters and buffers alone");
  }
}

void InitFunctions::keep_values(const Task& task, InitDone done) {
  std::string unwritten;
  for (const size_t param : task.params) {
    const at::Tensor values = model_.tensors[param].detach().contiguous();
    const int64_t count = num_unwritten(values);
    const bool is_left = count > 0 && count == values.numel();
    if (count > 0 && !(is_left && done == InitDone::kLeftRest)) {
      unwritten += "\n  - " + model_.params[param].fqn + ": " + std::to_string(count) +
                   " of " + std::to_string(values.numel()) + " elements";
    }
    if (!is_left) results_.emplace_back(param, values);
  }
  if (!unwritten.empty())
    reject("the init function of " + shown(task.fqn) +
               " leaves without a value:" + unwritten,
           option_of(options_),
           options_.param_init
               ? "write all of it, or return InitDone::kLeftRest where whole parameters "
                 "are for Options::init and the constructor"
               : "write all of it");
}

std::optional<at::Tensor> InitFunctions::values_of(size_t param) {
  if (!of_param_[param] || !is_deferred(model_.tensors[param])) return {};
  const size_t mine = *of_param_[param];
  for (size_t i = 0; i < mine; ++i) {
    if (tasks_[i].params.empty() && !tasks_[i].has_run) run(tasks_[i]);
  }
  if (ran_last_ != mine) run(tasks_[mine]);
  const auto found =
      std::ranges::find(results_, param, &std::pair<size_t, at::Tensor>::first);
  if (found == results_.end()) return {};
  return found->second;
}

const std::string* InitFunctions::module_of(size_t param) const {
  return of_param_[param] ? &tasks_[*of_param_[param]].fqn : nullptr;
}

const std::string* InitFunctions::writer_of_buffer(size_t buffer) const {
  return buffer_writer_[buffer] ? &tasks_[*buffer_writer_[buffer]].fqn : nullptr;
}

void InitFunctions::run_rest() {
  for (Task& task : tasks_) {
    if (!task.has_run) run(task);
  }
}

}  // namespace zero

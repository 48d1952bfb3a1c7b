#include "zero/deferred_init.h"

#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/init/recorded_value.h"
#include "engine/init/replay.h"
#include "zero/errors.h"

namespace zero {
namespace {

using torch::jit::Stack;

// Functions that make a tensor, and the in-place call that gives the same values: those
// say what each element is.
using Fill = void (*)(at::Tensor tensor, const c10::IValue& fill_value);
void leave(at::Tensor, const c10::IValue&) {}
void fill_zeros(at::Tensor tensor, const c10::IValue&) { tensor.zero_(); }
void fill_ones(at::Tensor tensor, const c10::IValue&) { tensor.fill_(1); }
void fill_value(at::Tensor tensor, const c10::IValue& value) {
  tensor.fill_(value.toScalar());
}
void draw_uniform(at::Tensor tensor, const c10::IValue&) { tensor.uniform_(); }
void draw_normal(at::Tensor tensor, const c10::IValue&) { tensor.normal_(); }
const std::unordered_map<std::string, Fill> kFactories{{"aten::empty", leave},
                                                       {"aten::empty_strided", leave},
                                                       {"aten::empty_like", leave},
                                                       {"aten::new_empty", leave},
                                                       {"aten::new_empty_strided", leave},
                                                       {"aten::zeros", fill_zeros},
                                                       {"aten::zeros_like", fill_zeros},
                                                       {"aten::new_zeros", fill_zeros},
                                                       {"aten::ones", fill_ones},
                                                       {"aten::ones_like", fill_ones},
                                                       {"aten::new_ones", fill_ones},
                                                       {"aten::full", fill_value},
                                                       {"aten::full_like", fill_value},
                                                       {"aten::new_full", fill_value},
                                                       {"aten::rand", draw_uniform},
                                                       {"aten::rand_like", draw_uniform},
                                                       {"aten::randn", draw_normal},
                                                       {"aten::randn_like", draw_normal}};

// Tensors that small get memory at once: torch::tensor() writes into it by itself.
constexpr size_t kOpenBytes = 1 << 20;

bool is_write(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

bool holds_deferred(const c10::IValue& value) {
  return std::ranges::any_of(tensors_in(value), is_deferred);
}

bool has_generator(const c10::IValue& value) {
  return value.isGenerator() && value.toGenerator().defined();
}

void call_really(const c10::OperatorHandle& op, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no(c10::DispatchKey::DeferredInit);
  op.callBoxed(stack);
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& problem,
                         const std::string& cure) {
  reject(problem + ": " + op.schema().name(), "inside zero::DeferredInit", cure);
}

// The call's arguments, which are the last ones on the stack.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, Stack& stack)
      : schema_(op.schema()),
        stack_(stack),
        base_(stack.size() - schema_.arguments().size()) {}

  size_t size() const { return schema_.arguments().size(); }
  auto begin() { return stack_.begin() + static_cast<std::ptrdiff_t>(base_); }
  auto end() { return stack_.end(); }
  c10::IValue& operator[](size_t i) { return stack_[base_ + i]; }
  const c10::Argument& declared(size_t i) const { return schema_.arguments()[i]; }
  c10::IValue named(const std::string& name) {
    for (size_t i = 0; i < size(); ++i) {
      if (declared(i).name() == name) return (*this)[i];
    }
    return {};
  }
  bool any(bool (*holds)(const c10::IValue&)) {
    return std::any_of(begin(), end(), holds);
  }
  std::vector<at::Tensor> written() {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < size(); ++i) {
      if (!is_write(declared(i))) continue;
      for (const at::Tensor& tensor : tensors_in((*this)[i])) tensors.push_back(tensor);
    }
    return tensors;
  }
  void replace_by(const Stack& results) {
    torch::jit::drop(stack_, size());
    for (const c10::IValue& result : results) stack_.push_back(result);
  }

 private:
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  const size_t base_;
};

at::Tensor on_meta(const at::Tensor& tensor) {
  const at::Tensor meta = at::empty_strided(tensor.sizes(), tensor.strides(),
                                            tensor.options().device(at::kMeta));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

// What the call would return, as far as shapes and types go. Nothing for one that the
// meta device does not know, or whose shapes follow from values.
std::optional<Stack> run_on_meta(const c10::OperatorHandle& op, Arguments& arguments) {
  c10::impl::ExcludeDispatchKeyGuard no(c10::DispatchKey::DeferredInit);
  Stack stack;
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // on meta, and here
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written = is_write(arguments.declared(i));
    c10::IValue value = with_tensors(arguments[i], [&](const at::Tensor& tensor) {
      const at::Tensor meta = on_meta(tensor);
      if (is_written) written.emplace_back(meta, tensor);
      return meta;
    });
    if (arguments.declared(i).name() == "device") value = c10::Device(c10::kMeta);
    stack.push_back(std::move(value));
  }
  try {
    op.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    return {};
  }
  for (const auto& [meta, tensor] : written) {
    if (meta.sizes() != tensor.sizes())
      refuse(op, "a constructor gives a deferred tensor another shape",
             "make it with the right shape");
  }
  return stack;
}

bool is_on_cpu(Arguments& arguments) {
  const c10::IValue device = arguments.named("device");
  return !device.isDevice() || device.toDevice().is_cpu();
}

void run_factory(const c10::OperatorHandle& op, Arguments& arguments) {
  const c10::IValue value = arguments.named("fill_value");
  const at::Tensor meta = run_on_meta(op, arguments).value().back().toTensor();
  const Fill fill = kFactories.at(op.schema().name());
  const std::shared_ptr<RecordedValue> new_one = new_value(meta);
  const bool is_open = fill == leave && new_one->num_bytes <= kOpenBytes;
  const at::Tensor deferred =
      is_open ? make_open(meta, *new_one) : make_deferred(meta, new_one);
  arguments.replace_by({deferred});
  fill(deferred, value);
}

// The call with snapshots of what it takes.
std::shared_ptr<RecordedCall> call_of(const c10::OperatorHandle& op,
                                      Arguments& arguments) {
  const c10::impl::ExcludeDispatchKeyGuard no(c10::DispatchKey::DeferredInit);
  auto call = std::make_shared<RecordedCall>(op);
  call->is_mutable = op.schema().is_mutable();
  for (size_t i = 0; i < arguments.size(); ++i) {
    call->arguments.push_back(with_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (tensor.is_conj() || tensor.is_neg())
        refuse(op, "a constructor conjugates a deferred tensor", "conj_physical()");
      if (is_deferred(tensor)) {
        close_memory(tensor);
        return make_deferred(tensor, recorded_value(tensor));
      }
      const bool is_callers = !tensor.storage().allocator();  // and may be gone by then
      if (is_callers) return tensor.clone();
      if (!tensor.is_inference()) call->others.emplace_back(tensor, tensor._version());
      return tensor;
    }));
  }
  return call;
}

void note_draw(RecordedCall& call, const std::shared_ptr<RecordedVariable>& variable) {
  if (!call.op.hasTag(at::Tag::nondeterministic_seeded)) return;
  call.drawn_for = variable;
  call.draw = variable->num_draws++;
}

void record_change(const c10::OperatorHandle& op, Arguments& arguments) {
  run_on_meta(op, arguments);  // refuses what plain LibTorch would refuse
  const std::vector<at::Tensor> written = arguments.written();
  for (const at::Tensor& tensor : written) {
    if (!is_deferred(tensor)) become_deferred(tensor);
  }
  const std::shared_ptr<RecordedCall> call = call_of(op, arguments);
  note_draw(*call, recorded_value(written.front())->variable);
  for (size_t place = 0; place < written.size(); ++place) {
    const ValuePtr before = recorded_value(written[place]);
    auto after = std::make_shared<RecordedValue>(*before);
    after->memory = nullptr;
    after->call = call;
    after->place = place;
    after->before = before;
    set_recorded_value(written[place], after);
  }
  Stack results;
  for (size_t i = 0; i < op.schema().returns().size(); ++i)
    results.emplace_back(written.at(i));
  arguments.replace_by(results);
}

void record_result(const c10::OperatorHandle& op, Arguments& arguments,
                   const Stack& shapes) {
  const std::shared_ptr<RecordedCall> call = call_of(op, arguments);
  size_t place = 0;
  Stack results;
  for (const c10::IValue& shape : shapes) {
    results.push_back(with_tensors(shape, [&](const at::Tensor& meta) {
      const std::shared_ptr<RecordedValue> value = new_value(meta);
      if (place == 0) note_draw(*call, value->variable);
      value->call = call;
      value->place = place++;
      return make_deferred(meta, value);
    }));
  }
  arguments.replace_by(results);
}

// Values are asked for now: a size that follows from a table, a check. Those that are the
// same in every process can be told.
void run_now(const c10::OperatorHandle& op, Arguments& arguments) {
  Replay replay({});
  Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack.push_back(with_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (!is_deferred(tensor)) return tensor;
      if (draws_random_numbers(recorded_value(tensor)))
        refuse(op, "a constructor reads random values that are not drawn yet",
               "compute it in forward(), or give the parameter an InitSpec");
      close_memory(tensor);
      return replay.values_of(tensor);
    }));
  }
  call_really(op, &stack);
  arguments.replace_by(stack);
}

// For one that the meta device does not know: run on ones, and thrown away.
Stack run_for_shapes(const c10::OperatorHandle& op, Arguments& arguments) {
  const c10::impl::ExcludeDispatchKeyGuard no(c10::DispatchKey::DeferredInit);
  const SeededGenerator seeded(0);
  Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack.push_back(with_tensors(arguments[i], [](const at::Tensor& tensor) {
      return is_deferred(tensor) ? at::ones(tensor.sizes(), tensor.options()) : tensor;
    }));
  }
  op.callBoxed(&stack);
  return stack;
}

bool has_shapes_of_values(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) ||
         op.hasTag(at::Tag::dynamic_output_shape);
}

bool returns_tensors_alone(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() &&
         std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
           const auto kind = result.type()->kind();
           return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
         });
}

bool changes_shape(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return name == "aten::resize_" || name == "aten::resize_as_" || name == "aten::set_";
}

// Of the ForbidDeferred that is alive.
thread_local const std::string* forbidden_to = nullptr;

void require_none(const c10::OperatorHandle& op, Arguments& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const at::Tensor& tensor : tensors_in(arguments[i])) {
      const ValuePtr value = recorded_value(tensor);
      if (!value) continue;
      const std::string& name = value->variable->name;
      reject(*forbidden_to + " uses " + (name.empty() ? "a deferred tensor" : name) +
                 " (" + op.schema().name() + "), which is not its own",
             "Options::param_init",
             "write the module's own parameters and buffers alone: each module has "
             "its turn, and a tied parameter belongs to the first that holds it");
    }
  }
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  Arguments arguments(op, *stack);
  if (forbidden_to) {
    require_none(op, arguments);
    return call_really(op, stack);
  }
  const bool takes_deferred = arguments.any(holds_deferred);
  const bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  if (kFactories.contains(schema.name()) && !schema.is_mutable() &&
      is_on_cpu(arguments) && !arguments.any(has_generator))
    return run_factory(op, arguments);
  if (!takes_deferred && !draws) return call_really(op, stack);
  // What is made of other calls: those come by here.
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                                         c10::DispatchKey::DeferredInit),
                              stack);
  }
  if (!is_on_cpu(arguments))
    refuse(op, "a constructor puts a deferred tensor on a GPU",
           "leave it on the CPU: the engine brings it where it belongs");
  if (arguments.any(has_generator))
    refuse(op, "a constructor draws from a generator of its own",
           "leave the generator out: Options::seed keys every draw");
  if (changes_shape(op))
    refuse(op, "a constructor gives a deferred tensor another shape",
           "make it with the right shape");
  if (op.hasTag(at::Tag::inplace_view)) return call_really(op, stack);
  if (is_view(schema)) return call_really(op, stack);
  if (schema.is_mutable()) return record_change(op, arguments);
  std::optional<Stack> shapes =
      returns_tensors_alone(schema) ? run_on_meta(op, arguments) : std::nullopt;
  if (!shapes && returns_tensors_alone(schema) && !has_shapes_of_values(op))
    shapes = run_for_shapes(op, arguments);
  if (!shapes && draws)
    refuse(op, "a constructor draws numbers whose shape is random", "another operation");
  shapes ? record_result(op, arguments, *shapes) : run_now(op, arguments);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace

struct DeferredInit::Guard {
  c10::impl::IncludeDispatchKeyGuard include{c10::DispatchKey::DeferredInit};
};

DeferredInit::DeferredInit() : guard_(std::make_unique<Guard>()) {}
DeferredInit::~DeferredInit() = default;

ForbidDeferred::ForbidDeferred(std::string who)
    : who_(std::move(who)), guard_(std::make_unique<DeferredInit>()) {
  forbidden_to = &who_;
}
ForbidDeferred::~ForbidDeferred() { forbidden_to = nullptr; }

bool is_deferred(const at::Tensor& tensor) { return recorded_value(tensor) != nullptr; }

// The storage itself can never be read; all views of it get the same new one.
void materialize(at::Tensor tensor) {
  if (is_deferred(tensor)) Replay({}).give_memory(tensor);
}

}  // namespace zero

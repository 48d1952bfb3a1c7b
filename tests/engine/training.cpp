#include "tests/engine/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/comm/thread_ranks.h"
#include "engine/device/torch/compute_type.h"
#include "offload/exact_sum.h"
#include "offload/random.h"
#include "offload/thread_pool.h"
#include "offload/update.h"
#include "zero/deferred_init.h"

namespace zero::testing {
namespace {

// The unsharded module with the start values that an engine gives its shards.
std::shared_ptr<Gpt2Impl> initialised_gpt2(const Gpt2Config& config,
                                           const Options& options) {
  auto model = std::make_shared<Gpt2Impl>(config);
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    for (const auto& [pattern, spec] : options.init) {
      const std::string regex_free = pattern;
      if (item.key() == "lm_head.weight") break;  // tied: filled under its first name
      at::Tensor values = at::empty_like(item.value());
      bool matches = pattern == "*";
      if (pattern == "*.ln_?.weight")
        matches = item.key().find(".ln_") != std::string::npos &&
                  item.key().ends_with(".weight");
      if (pattern == "*.bias") matches = item.key().ends_with(".bias");
      if (pattern == "*.c_proj.weight") matches = item.key().ends_with(".c_proj.weight");
      if (!matches) continue;
      fill(spec, options.seed, item.key(), 0,
           {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
      item.value().copy_(values);
      break;
    }
  }
  return model;
}

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// A tree of adjacent pairs over the values, as a binary counter builds it; or a running
// sum.
std::vector<at::Tensor> sum_of_passes(std::vector<std::vector<at::Tensor>> passes,
                                      bool tree) {
  const auto add = [](const std::vector<at::Tensor>& a,
                      const std::vector<at::Tensor>& b) {
    std::vector<at::Tensor> sum;
    for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
    return sum;
  };
  while (tree && passes.size() > 1) {
    std::vector<std::vector<at::Tensor>> pairs;
    for (size_t i = 0; i + 1 < passes.size(); i += 2)
      pairs.push_back(add(passes[i], passes[i + 1]));
    if (passes.size() % 2 == 1) pairs.push_back(passes.back());
    passes = std::move(pairs);
  }
  std::vector<at::Tensor> sum = passes.front();
  for (size_t i = 1; i < passes.size(); ++i) sum = add(sum, passes[i]);
  return sum;
}

// The engine's update on whole tensors.
class ExactOptimizer {
 public:
  ExactOptimizer(const std::vector<at::Tensor>& params, const Options& options)
      : params_(params), options_(options) {
    for (const at::Tensor& p : params_)
      states_.emplace_back(states_of(options.optimizer.kind).size(), at::zeros_like(p));
    for (auto& states : states_) {
      for (at::Tensor& state : states) state = state.clone();
    }
  }

  double step(std::vector<at::Tensor> grads, double factor, int64_t step) {
    ExactSum sum;
    for (at::Tensor& g : grads) {
      if (options_.grad_dtype == DType::kBf16) g = g.to(at::kBFloat16).to(at::kFloat);
      add_squares(sum, g.data_ptr<float>(), g.numel());
    }
    const double norm = std::sqrt(sum.value()) * factor;
    const double clip =
        options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1.0;
    for (size_t i = 0; i < params_.size(); ++i) {
      OptimizerOptions optimizer = options_.optimizer;
      if (params_[i].dim() < 2) optimizer.weight_decay = 0;
      UpdatePiece piece;
      piece.grad = grads[i].data_ptr<float>();
      piece.master = params_[i].data_ptr<float>();
      for (size_t s = 0; s < states_[i].size(); ++s)
        piece.state[s] = states_[i][s].data_ptr<float>();
      piece.numel = params_[i].numel();
      const Update one{piece, make_rule(optimizer, learning_rate(options_.schedule, step),
                                        step + 1, static_cast<float>(factor * clip))};
      update({&one, 1}, pool_);
      if (options_.state_dtype != DType::kBf16) continue;
      for (at::Tensor& state : states_[i]) state.copy_(state.to(at::kBFloat16));
    }
    return norm;
  }

  void collect_state(size_t param, const std::string& fqn, Trained& run) const {
    const auto names = states_of(options_.optimizer.kind);
    for (size_t s = 0; s < names.size(); ++s)
      run.state[std::string(names[s]) + " " + fqn] = to_vector(states_[param][s]);
  }

 private:
  std::vector<at::Tensor> params_;
  std::vector<std::vector<at::Tensor>> states_;  // of each parameter
  const Options options_;
  ThreadPool pool_{1};
};

// torch's own optimizer and clip_grad_norm_, with weight decay on matrices only.
class TorchOptimizer {
 public:
  TorchOptimizer(const std::vector<at::Tensor>& params, const Options& options)
      : params_(params), options_(options), optimizer_(make(params, options)) {}

  double step(const std::vector<at::Tensor>& grads, double factor, int64_t step) {
    for (size_t i = 0; i < params_.size(); ++i)
      params_[i].mutable_grad() = grads[i] * factor;
    const double max_norm = options_.clip > 0 ? options_.clip : 1e30;
    const double norm = torch::nn::utils::clip_grad_norm_(params_, max_norm);
    for (auto& group : optimizer_->param_groups())
      group.options().set_lr(learning_rate(options_.schedule, step));
    optimizer_->step();
    optimizer_->zero_grad();
    return norm;
  }

  void collect_state(size_t, const std::string&, Trained&) const {}

 private:
  template <class Optimizer, class Settings>
  static std::unique_ptr<torch::optim::Optimizer> make(
      const std::vector<at::Tensor>& params, const Settings& settings, double decay) {
    std::vector<at::Tensor> matrices, others;
    for (const at::Tensor& p : params) (p.dim() >= 2 ? matrices : others).push_back(p);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    const auto add = [&](const std::vector<at::Tensor>& of, double weight_decay) {
      auto own = std::make_unique<Settings>(settings);
      own->weight_decay(weight_decay);
      groups.emplace_back(of, std::move(own));
    };
    add(matrices, decay);
    add(others, 0);
    return std::make_unique<Optimizer>(groups, settings);
  }

  static std::unique_ptr<torch::optim::Optimizer> make(
      const std::vector<at::Tensor>& params, const Options& options) {
    namespace optim = torch::optim;
    const OptimizerOptions& our = options.optimizer;
    const double lr = options.schedule.lr;
    if (our.kind == Optimizer::kSgd) {
      return make<optim::SGD>(
          params, optim::SGDOptions(lr).momentum(our.momentum).nesterov(our.nesterov),
          our.weight_decay);
    }
    if (our.kind == Optimizer::kAdagrad) {
      return make<optim::Adagrad>(params, optim::AdagradOptions(lr).eps(our.eps),
                                  our.weight_decay);
    }
    return make<optim::AdamW>(
        params, optim::AdamWOptions(lr).betas({our.beta1, our.beta2}).eps(our.eps),
        our.weight_decay);
  }

  std::vector<at::Tensor> params_;
  const Options options_;
  const std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

template <class Optimizer>
Trained run_unsharded(const Options& options, const Work& work,
                      const Gpt2Config& config) {
  at::set_num_threads(1);
  auto model = initialised_gpt2(config, options);
  const bool has_copies = options.dtype != DType::kFp32;
  const double scale =
      options.dtype == DType::kFp16 ? static_cast<double>(options.loss_scale.init) : 1;
  std::vector<at::Tensor> weights, params;  // the model's own, and fp32 masters
  std::vector<std::string> names;
  for (auto& item : model->named_parameters()) {
    if (item.key() == "lm_head.weight") continue;
    params.push_back(has_copies ? item.value().detach().clone() : item.value());
    if (has_copies) item.value().set_data(params.back().to(scalar_type(options.dtype)));
    weights.push_back(item.value());
    names.push_back(item.key());
  }
  Optimizer optimizer(params, options);
  Trained run;
  for (int step = 0; step < work.steps; ++step) {
    std::vector<std::vector<at::Tensor>> passes;
    double loss_total = 0;
    int64_t num_targets = 0;
    for (int m = 0; m < work.micro_batches; ++m) {
      const auto [tokens, targets] = batch_of(work, config.vocab_size, step, m);
      const at::Tensor loss = model->forward(tokens, targets);
      loss_total += loss.template item<double>();
      num_targets += targets.ge(0).sum().template item<int64_t>();
      loss.div(options.nominal_targets).mul(scale).backward();
      std::vector<at::Tensor> grads;
      for (const at::Tensor& p : weights) {
        grads.push_back(p.grad().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
        p.mutable_grad().reset();
      }
      passes.push_back(std::move(grads));
    }
    const torch::NoGradGuard no_grad;
    const auto sum = sum_of_passes(std::move(passes), options.deterministic);
    run.losses.push_back(loss_total / static_cast<double>(num_targets));
    run.norms.push_back(optimizer.step(
        sum, options.nominal_targets / scale / static_cast<double>(num_targets), step));
    for (size_t i = 0; has_copies && i < params.size(); ++i) weights[i].copy_(params[i]);
  }
  for (size_t i = 0; i < params.size(); ++i) {
    run.params[names[i]] = to_vector(params[i]);
    optimizer.collect_state(i, names[i], run);
  }
  return run;
}

void expect_same_tensors(const std::map<std::string, std::vector<float>>& a,
                         const std::map<std::string, std::vector<float>>& b,
                         const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [fqn, values] : a) {
    ASSERT_TRUE(b.contains(fqn)) << what << " " << fqn;
    ASSERT_EQ(values.size(), b.at(fqn).size()) << what << " " << fqn;
    EXPECT_EQ(std::memcmp(values.data(), b.at(fqn).data(), values.size() * sizeof(float)),
              0)
        << what << " of " << fqn << " differs";
  }
}

}  // namespace

std::shared_ptr<Gpt2Impl> deferred_gpt2(const Gpt2Config& config) {
  const DeferredInit guard;
  return std::make_shared<Gpt2Impl>(config);
}

void expect_planned_bytes(Engine& engine) {
  int64_t planned = 0;
  for (const MemoryEntry& entry : engine.memory()) planned += entry.bytes;
  EXPECT_EQ(engine.allocated_bytes(), planned);
}

void collect_shards(Engine& engine, Trained& run) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (const ShardView& view : engine.shards()) {
    int64_t numel = 1;
    for (const int64_t d : view.shape) numel *= d;
    const auto put = [&](std::vector<float>& into, const StoredValues& values) {
      into.resize(numel, NAN);
      values.read(0, std::span(into).subspan(view.begin, values.size()));
    };
    put(run.params[view.fqn], view.master);
    for (const auto& [name, values] : view.state)
      put(run.state[name + " " + view.fqn], values);
  }
}

Gpt2Config small_gpt2() {
  Gpt2Config config;
  config.n_layer = 3;
  config.n_head = 4;
  config.n_embd = 64;
  config.n_positions = 32;
  config.vocab_size = 257;
  return config;
}

std::pair<at::Tensor, at::Tensor> batch_of(const Work& work, int64_t vocab, int step,
                                           int micro_batch) {
  const at::Tensor text = at::empty({work.rows, work.seq_len + 1}, at::kLong);
  auto* tokens = text.data_ptr<int64_t>();
  const uint64_t key =
      hash_key(hash_key(7, "batch"), static_cast<uint64_t>(step * 1000 + micro_batch));
  int64_t previous = 0;
  // Half of the tokens follow from the one before.
  for (int64_t i = 0; i < text.numel(); ++i) {
    const auto random = philox(key, static_cast<uint64_t>(i), 0);
    previous = random[0] % 2 == 0 ? (previous * 5 + 3) % vocab : random[1] % vocab;
    tokens[i] = previous;
  }
  at::Tensor targets = text.narrow(1, 1, work.seq_len).clone();
  if (work.masks_targets)
    targets.narrow(1, 0, (micro_batch * 7) % work.seq_len).fill_(-1);
  return {text.narrow(1, 0, work.seq_len).contiguous(), targets};
}

Options small_options(const Work& work) {
  Options options;
  options.seed = 3;
  options.init = gpt2_init_rules(small_gpt2());
  options.schedule.lr = 3e-3;
  // Key biases have no gradient but rounding noise, which a smaller eps would blow up.
  options.optimizer.eps = 1e-6;
  options.schedule.warmup_steps = 2;
  options.clip = 1.0;
  options.nominal_targets = static_cast<double>(work.rows * work.seq_len);
  options.adam_threads = 1;
  options.device = DeviceChoice::kCpu;
  return options;
}

void on_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& body) {
  auto groups = make_thread_ranks(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        body(std::move(groups[rank]));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

Trained train(int ranks, const Options& given, const Work& work, const Hooks& hooks,
              const Gpt2Config& config) {
  Trained run;
  Options options = given;
  options.micro_batches_per_rank = work.micro_batches / ranks;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = deferred_gpt2(config);
    Engine engine(model, options, std::move(comm));
    for (int step = 0; step < work.steps; ++step) {
      for (int64_t p = 0; p < options.micro_batches_per_rank; ++p) {
        const auto m = static_cast<int>(
            engine.mesh().micro_batch(rank, p, options.micro_batches_per_rank));
        const auto [tokens, targets] = batch_of(work, config.vocab_size, step, m);
        const at::Tensor loss = engine.forward(model, tokens, targets);
        engine.backward(loss, targets.ge(0).sum().item<int64_t>());
      }
      if (hooks.before_step_end) hooks.before_step_end(engine, *model, step);
      const StepReport report = engine.step();
      if (hooks.after_step) hooks.after_step(engine, *model, step);
      if (rank != 0) continue;
      run.losses.push_back(report.loss);
      run.norms.push_back(report.grad_norm);
    }
    collect_shards(engine, run);
    if (rank != 0) return;
    run.num_gathers = engine.num_gathers();
    run.num_reductions = engine.num_reductions();
  });
  return run;
}

Trained train_unsharded(const Options& options, const Work& work, bool exact,
                        const Gpt2Config& config) {
  return exact ? run_unsharded<ExactOptimizer>(options, work, config)
               : run_unsharded<TorchOptimizer>(options, work, config);
}

std::pair<double, double> loss_and_norm_of(const at::Tensor& tokens,
                                           const at::Tensor& targets,
                                           const Options& options) {
  auto model = initialised_gpt2(small_gpt2(), options);
  const at::Tensor loss = model->forward(tokens, targets) / targets.ge(0).sum();
  loss.backward();
  double squares = 0;
  for (const auto& item : model->named_parameters()) {
    if (item.key() != "lm_head.weight")
      squares += item.value().grad().pow(2).sum().item<double>();
  }
  return {loss.item<double>(), std::sqrt(squares)};
}

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  expect_same_tensors(a.params, b.params, "value");
  expect_same_tensors(a.state, b.state, "state");
}

void expect_close(const Trained& a, const Trained& b, double rtol, double atol) {
  const auto is_close = [&](double x, double y) {
    return std::abs(x - y) <= atol + rtol * std::abs(y);
  };
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_TRUE(is_close(a.losses[i], b.losses[i]))
        << "loss " << i << ": " << a.losses[i] << " " << b.losses[i];
    EXPECT_TRUE(is_close(a.norms[i], b.norms[i]))
        << "norm " << i << ": " << a.norms[i] << " " << b.norms[i];
  }
  for (const auto& [fqn, values] : a.params) {
    ASSERT_EQ(values.size(), b.params.at(fqn).size()) << fqn;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(is_close(values[i], b.params.at(fqn)[i]))
          << fqn << "[" << i << "]: " << values[i] << " " << b.params.at(fqn)[i];
    }
  }
}

}  // namespace zero::testing

// Time training steps of one GPT, with the engine or as a plain LibTorch loop, on the
// same batches.
//
//   bench_step plain|engine|both fp32|bf16 ROUNDS STEPS
//
// `both` alternates rounds of the two in one process. Each round prints one JSON line.
// Under mpirun only `engine` makes sense. The plain loop is what a LibTorch user writes:
// the module, torch::optim::AdamW on fp32 masters, in bf16 with weights cast after every
// step.
#include <sched.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "engine/init/deferred_init.h"
#include "examples/models/gpt2.h"

namespace {

using namespace zero;

constexpr int64_t kRows = 4, kLength = 256;

Gpt2Config config() {
  Gpt2Config config;  // 10.7 million parameters
  config.n_layer = 6;
  config.n_head = 6;
  config.n_embd = 384;
  config.n_positions = kLength;
  config.vocab_size = 257;
  return config;
}

at::Tensor text(int64_t step) {
  torch::manual_seed(step);
  return torch::randint(0, 256, {kRows, kLength + 1}, at::kLong);
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class PlainLoop {
 public:
  explicit PlainLoop(bool bf16)
      : model_(std::make_shared<Gpt2Impl>(config())), bf16_(bf16) {
    for (const auto& item : model_->named_parameters()) {
      if (item.key() == "lm_head.weight") continue;
      if (item.value().dim() >= 2) torch::nn::init::normal_(item.value(), 0, 0.02);
      params_.push_back(item.value());
      masters_.push_back(bf16 ? item.value().detach().clone().requires_grad_()
                              : item.value());
    }
    if (bf16) {
      for (at::Tensor& p : params_) p.set_data(p.detach().to(at::kBFloat16));
    }
    optimizer_ = std::make_unique<torch::optim::AdamW>(
        masters_, torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
  }

  double step(int64_t number) {
    const at::Tensor batch = text(number);
    const at::Tensor loss = model_->forward(batch.narrow(1, 0, kLength).contiguous(),
                                            batch.narrow(1, 1, kLength).contiguous()) /
                            static_cast<double>(kRows * kLength);
    loss.backward();
    const torch::NoGradGuard no_grad;
    if (bf16_) {
      for (size_t i = 0; i < params_.size(); ++i) {
        masters_[i].mutable_grad() = params_[i].grad().to(at::kFloat);
        params_[i].mutable_grad().reset();
      }
    }
    torch::nn::utils::clip_grad_norm_(masters_, 1.0);
    optimizer_->step();
    optimizer_->zero_grad();
    if (bf16_) {
      for (size_t i = 0; i < params_.size(); ++i) params_[i].copy_(masters_[i]);
    }
    return loss.item<double>();
  }

 private:
  std::shared_ptr<Gpt2Impl> model_;
  const bool bf16_;
  std::vector<at::Tensor> params_, masters_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

class EngineLoop {
 public:
  explicit EngineLoop(bool bf16) {
    {
      const DeferredInit guard;
      model_ = std::make_shared<Gpt2Impl>(config());
    }
    Options options;
    options.init = gpt2_init_rules(config());
    options.clip = 1;
    options.dtype = bf16 ? DType::kBf16 : DType::kFp32;
    options.recompute = Recompute::kNone;
    options.reshard_after_forward = false;
    options.nominal_targets = static_cast<double>(kRows * kLength);
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    engine_ = std::make_unique<Engine>(model_, options);
  }

  double step(int64_t number) {
    const at::Tensor batch = text(number * engine_->size() + engine_->rank());
    engine_->backward(engine_->forward(model_, batch.narrow(1, 0, kLength).contiguous(),
                                       batch.narrow(1, 1, kLength).contiguous()),
                      kRows * kLength);
    return engine_->step().loss;
  }
  int rank() const { return engine_->rank(); }
  int size() const { return engine_->size(); }

 private:
  std::shared_ptr<Gpt2Impl> model_;
  std::unique_ptr<Engine> engine_;
};

void time_round(const std::string& what, const std::string& dtype, int rank, int size,
                int steps, const std::function<double(int64_t)>& step) {
  const double start = now();
  double loss = 0;
  for (int i = 0; i < steps; ++i) loss = step(i);
  const double seconds = now() - start;
  if (rank != 0) return;
  std::printf(
      "{\"what\":\"%s\",\"dtype\":\"%s\",\"ranks\":%d,\"tokens_per_second\":%.1f,"
      "\"loss\":%.4f,\"peak_mib\":%.0f}\n",
      what.c_str(), dtype.c_str(), size,
      static_cast<double>(size * steps * kRows * kLength) / seconds, loss, peak_mib());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_step plain|engine|both fp32|bf16 ROUNDS STEPS\n");
    return 2;
  }
  const std::string what = argv[1], dtype = argv[2];
  const int rounds = std::stoi(argv[3]), steps = std::stoi(argv[4]);
  at::set_num_threads(1);
  std::unique_ptr<PlainLoop> plain;
  std::unique_ptr<EngineLoop> engine;
  if (what != "engine") plain = std::make_unique<PlainLoop>(dtype == "bf16");
  if (what != "plain") engine = std::make_unique<EngineLoop>(dtype == "bf16");
  if (plain) plain->step(0);
  if (engine) engine->step(0);
  for (int round = 0; round < rounds; ++round) {
    if (plain)
      time_round("plain", dtype, 0, 1, steps, [&](int64_t i) { return plain->step(i); });
    if (engine) {
      time_round("engine", dtype, engine->rank(), engine->size(), steps,
                 [&](int64_t i) { return engine->step(i); });
    }
  }
}

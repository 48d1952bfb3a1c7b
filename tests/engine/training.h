#pragma once
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "examples/models/gpt2.h"
#include "zero/engine.h"

namespace zero::testing {

// What a training run left behind, to be compared with another one.
struct Trained {
  std::vector<double> losses, norms;                 // of each step
  std::map<std::string, std::vector<float>> params;  // full tensors by FQN
  std::map<std::string, std::vector<float>> state;   // "exp_avg wte.weight", as they are
  int64_t num_gathers = 0, num_reductions = 0;       // of rank 0
};

// The work of a run: `micro_batches` per step, dealt out to however many ranks there are.
struct Work {
  int steps = 4;
  int micro_batches = 12;
  int64_t rows = 1;  // of a micro-batch
  int64_t seq_len = 32;
  bool masks_targets = false;  // unevenly many targets are -1
};

Gpt2Config small_gpt2();

// A model whose engine gives it its first values, by Options::init.
std::shared_ptr<Gpt2Impl> deferred_gpt2(const Gpt2Config& config);

// What the engine allocated is what its plan says.
void expect_planned_bytes(Engine& engine);

// Tokens and targets (rows, seq_len) of one micro-batch of one step, the same for every
// run.
std::pair<at::Tensor, at::Tensor> batch_of(const Work& work, int64_t vocab, int step,
                                           int micro_batch);

// Options that fit small_gpt2 and the work.
Options small_options(const Work& work);

// Trained `body(ranks)` on ranks that are threads; the first exception of a rank
// is rethrown.
void on_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& body);

// Called on every rank at points of the run.
struct Hooks {
  std::function<void(Engine&, Gpt2Impl&, int step)> before_step_end, after_step;
};

// Put this rank's slices into the run's full tensors; from several threads at once.
void collect_shards(Engine& engine, Trained& run);

// Train small_gpt2 with an Engine on `ranks` threads.
Trained train(int ranks, const Options& options, const Work& work,
              const Hooks& hooks = {}, const Gpt2Config& config = small_gpt2());

// Train the same module unsharded: plain LibTorch autograd in one process. The optimizer
// is torch::optim::AdamW, SGD or Adagrad, or, with `exact`, the engine's own arithmetic:
// pair tree over micro-batches if options.deterministic, one divisor, exact norm, our
// update. Weights are of options.dtype, copied from fp32 masters after each step; in fp16
// the loss is scaled by loss_scale.init throughout.
Trained train_unsharded(const Options& options, const Work& work, bool exact,
                        const Gpt2Config& config = small_gpt2());

// Mean loss and gradient norm of one batch on the unsharded start model.
std::pair<double, double> loss_and_norm_of(const at::Tensor& tokens,
                                           const at::Tensor& targets,
                                           const Options& options);

// Bitwise.
void expect_same(const Trained& a, const Trained& b);
// |a - b| <= atol + rtol * |b| for losses, norms and parameters.
void expect_close(const Trained& a, const Trained& b, double rtol = 1.3e-6,
                  double atol = 1e-5);

}  // namespace zero::testing

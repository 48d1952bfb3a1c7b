// An own model on own data, sharded over the ranks of mpirun; docs/library.md walks
// through it.
//
//   mpirun -n 2 custom_model RUN_FOLDER STEPS      trains up to STEPS, or goes on from
//   the folder's last checkpoint
#include <torch/torch.h>
#include <zero/deferred_init.h>
#include <zero/engine.h>
#include <zero/ranks.h>
#include <zero/save_load.h>
#include <zero/unit.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "checkpoint/find.h"
#include "launcher/run_log.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr int64_t kRows = 16, kFeatures = 32, kClasses = 10, kWidth = 128, kLayers = 4;
constexpr int64_t kMicroBatches = 4;  // of a step, over all ranks

// What is gathered, run and released as one.
struct BlockImpl : nn::Module {
  explicit BlockImpl(int64_t width)
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})))),
        up(register_module("up", nn::Linear(width, 4 * width))),
        down(register_module("down", nn::Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& x) {
    return x + down(F::gelu(up(norm(x))));
  }  // (rows, width)
  nn::LayerNorm norm;
  nn::Linear up, down;
};

struct ClassifierImpl : nn::Module {
  ClassifierImpl()
      : stem(register_module("stem", nn::Linear(kFeatures, kWidth))),
        blocks(register_module("blocks", zero::UnitList<BlockImpl>())),
        head(register_module("head", nn::Linear(kWidth, kClasses))) {
    for (int i = 0; i < kLayers; ++i) blocks->push_back(zero::Unit<BlockImpl>(kWidth));
  }
  at::Tensor forward(const at::Tensor& samples,
                     const at::Tensor& labels) {  // the sum of the losses
    at::Tensor x = stem(samples);
    for (auto& block : *blocks) x = block.value()(x);
    return F::cross_entropy(head(x), labels,
                            F::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  nn::Linear stem;
  zero::UnitList<BlockImpl> blocks;
  nn::Linear head;
};

// Micro-batch `index` of a stream without end, the same whoever asks: the class is the
// largest of ten sums.
std::pair<at::Tensor, at::Tensor> micro_batch(uint64_t index) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(index);
  const at::Tensor samples = torch::randn({kRows, kFeatures}, random);
  return {samples,
          samples.slice(1, 0, 3 * kClasses).view({kRows, kClasses, 3}).sum(2).argmax(1)};
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: custom_model RUN_FOLDER STEPS\n", stderr), 2;
  const std::string run = argv[1];
  const int64_t steps = std::atoll(argv[2]);
  // The same bits on any number of ranks need one way to split a sum.
  torch::set_num_threads(1);

  std::unique_ptr<zero::Ranks> ranks = zero::make_ranks();
  zero::Options options;
  options.schedule.lr = 1e-3;
  options.clip = 1;
  options.deterministic = true;
  options.nominal_targets = kRows;
  options.micro_batches_per_rank = kMicroBatches / ranks->size();  // on 1, 2 or 4 ranks

  std::shared_ptr<ClassifierImpl> model;
  {
    // Shapes, no memory: the engine fills each rank's shard.
    const zero::DeferredInit guard;
    model = std::make_shared<ClassifierImpl>();
  }
  const auto last = zero::checkpoint::newest_complete(run);
  if (last) options.source = zero::Source::kCheckpoint;
  zero::Engine engine(model, options, std::move(ranks));

  int64_t samples_seen = 0;  // bytes of our own in the checkpoint
  if (last) {
    const zero::SavedState saved = zero::load_checkpoint(engine, last->path);
    std::memcpy(&samples_seen, saved.user.at("samples_seen").data(), sizeof samples_seen);
  }

  zero::RunLog log(run, engine);  // `zero_launch report RUN_FOLDER` makes a page of it
  while (engine.num_steps() < steps) {
    for (int64_t m = engine.rank(); m < kMicroBatches; m += engine.size()) {
      const auto [samples, labels] = micro_batch(engine.num_steps() * kMicroBatches + m);
      engine.backward(engine.forward(model, samples, labels), kRows);
    }
    const zero::StepReport report = engine.step();
    log.step(report);
    samples_seen += report.num_targets;
    if (engine.rank() == 0)
      std::printf("step %ld loss %.17g\n", report.step, report.loss);
  }

  {
    // Every rank runs the same forward: weights come from all of them.
    const torch::NoGradGuard no_grad;
    const auto [samples, labels] = micro_batch(UINT64_MAX);
    const double loss = engine.forward(model, samples, labels).item<double>() / kRows;
    log.eval(loss, kRows);
    if (engine.rank() == 0)
      std::printf("evaluation loss %.17g after %ld samples\n", loss, samples_seen);
  }

  zero::SavedState state;
  state.step = engine.num_steps();
  const char* bytes = reinterpret_cast<const char*>(&samples_seen);
  state.user["samples_seen"] = {bytes, bytes + sizeof samples_seen};
  const std::string path = zero::save_checkpoint(engine, run, state, /*replace=*/true);
  if (engine.rank() == 0) std::printf("saved %s\n", path.c_str());
  log.end();
}

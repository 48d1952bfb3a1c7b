// A model whose layers are ours, on a GPU and on the host: the same bits.
#include <gtest/gtest.h>

#include "examples/models/llama.h"
#include "tests/engine/training.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/chunked_loss.h"
#include "zero/key_values.h"
#include "zero/layers.h"

namespace zero::testing::layers_standin_test {
namespace {

// Grouped queries, norms of heads.
LlamaConfig small_llama() {
  LlamaConfig config;
  config.vocab_size = 17;
  config.n_embd = 32;
  config.n_inner = 40;
  config.n_positions = 0;
  config.n_layer = 2;
  config.n_head = 4;
  config.num_kv_heads = 2;
  config.head_dim = config.rotary.dim = 16;
  config.has_qk_norm = true;
  return config;
}

struct Seen {
  std::vector<double> losses, norms;
};

Seen train_on(DeviceChoice device, DType dtype) {
  Options options;
  options.device = device;
  options.dtype = dtype;
  options.adam_threads = 1;
  options.schedule.lr = 0.01;
  options.stream_always = true;
  if (dtype == DType::kFp16) options.loss_scale.init = 1 << 10;
  options.chaos_seed = device == DeviceChoice::kCuda ? 3 : 0;
  const auto model = make_llama(small_llama());
  at::manual_seed(1);
  for (at::Tensor& weight : model->parameters()) weight.data().normal_(0.1, 0.3);
  Engine engine(model, options);
  Seen seen;
  for (int step = 0; step < 3; ++step) {
    const auto [tokens, targets] = batch_of({.rows = 2, .seq_len = 9}, 17, step, 0);
    engine.backward(engine.forward(model, tokens, targets), targets.numel());
    const StepReport report = engine.step();
    seen.losses.push_back(report.loss);
    seen.norms.push_back(report.grad_norm);
  }
  return seen;
}

struct NextLogits {
  Decoder& model;
  KeyValues& read;
  at::Tensor forward(const at::Tensor& tokens) { return model.next_logits(tokens, read); }
};

// Logits of rows that get 3 and 5 tokens, then 1 each, then the first row alone.
std::vector<at::Tensor> read_on(DeviceChoice device, DType dtype) {
  Options options;
  options.device = device;
  options.dtype = dtype;
  options.inference = true;
  options.chaos_seed = device == DeviceChoice::kCuda ? 3 : 0;
  const auto model = make_llama(small_llama());
  at::manual_seed(1);
  for (at::Tensor& weight : model->parameters()) weight.data().normal_(0.1, 0.3);
  Engine engine(model, options);
  KeyValues read(/*rows=*/2, model->num_layers());
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> seen;
  for (const std::vector<int64_t>& counts :
       std::vector<std::vector<int64_t>>{{3, 5}, {1, 1}, {1, 0}}) {
    const int64_t length = *std::ranges::max_element(counts);
    read.begin(counts, length);
    NextLogits callable{*model, read};
    auto* forward = &callable;
    seen.push_back(
        engine.forward(forward, torch::arange(2 * length).view({2, length})).cpu());
    read.end();
  }
  return seen;
}

TEST(LlamaOnAGpu, ReadsWhatTheHostReads) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const auto on_gpu = read_on(DeviceChoice::kCuda, dtype);
    const auto on_host = read_on(DeviceChoice::kCpu, dtype);
    for (size_t i = 0; i < on_gpu.size(); ++i)
      EXPECT_TRUE(torch::equal(on_gpu[i][0], on_host[i][0])) << name_of(dtype) << i;
  }
}

// Bytes that go to the GPU for one more token of each row.
int64_t bytes_of_a_token(int64_t rows) {
  Options options;
  options.device = DeviceChoice::kCuda;
  options.inference = true;
  LlamaConfig config = small_llama();
  config.n_layer = 6;  // more than stay there
  const auto model = make_llama(config);
  Engine engine(model, options);
  KeyValues read(rows, config.n_layer);
  const torch::NoGradGuard no_grad;
  int64_t bytes = 0;
  for (const int64_t length : {3, 1}) {
    const int64_t before = engine.traffic().to_device;
    read.begin(std::vector<int64_t>(rows, length), length);
    NextLogits callable{*model, read};
    auto* forward = &callable;
    engine.forward(forward, torch::ones({rows, length}, torch::kLong));
    read.end();
    bytes = engine.traffic().to_device - before;
  }
  return bytes;
}

TEST(LlamaOnAGpu, ReadsItsWeightsOnceForAllRows) {
  EXPECT_GT(bytes_of_a_token(1), 0);
  EXPECT_EQ(bytes_of_a_token(1), bytes_of_a_token(16));
}

TEST(LlamaOnAGpu, HasTheBitsOfTheHost) {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const Seen on_gpu = train_on(DeviceChoice::kCuda, dtype);
    const Seen on_host = train_on(DeviceChoice::kCpu, dtype);
    EXPECT_EQ(on_gpu.losses, on_host.losses) << name_of(dtype);
    EXPECT_EQ(on_gpu.norms, on_host.norms) << name_of(dtype);
  }
}

// The stand-in refuses groups that LibTorch would copy keys and values for.
TEST(GroupedQueriesOnAGpu, CopyNoKeysAndHaveTheBitsOfTheHost) {
  const c10::Device gpu(c10::kCUDA, 0);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t head_dim : {16, 256, 264}) {
      const at::Tensor q = at::randn({2, 6, 5, head_dim}).to(type),
                       k = at::randn({2, 2, 5, head_dim}).to(type), v = at::randn_like(k);
      EXPECT_TRUE(torch::equal(causal_attention(q.to(gpu), k.to(gpu), v.to(gpu)).cpu(),
                               causal_attention(q, k, v)))
          << type << " " << head_dim;
    }
  }
}

// The loss, and the gradients of hidden and weight, each way.
std::vector<at::Tensor> losses_of(const at::Tensor& hidden, const at::Tensor& weight,
                                  const at::Tensor& targets, int64_t chunk) {
  const at::Tensor x = hidden.detach().requires_grad_();
  const at::Tensor w = weight.detach().requires_grad_();
  const at::Tensor loss = chunk > 0 ? chunked_loss(x, w, targets, chunk)
                                    : cross_entropy(at::linear(x, w), targets);
  auto all = torch::autograd::grad({loss}, {x, w});
  all.push_back(loss.detach());
  return all;
}

// Of sizes whose products the host computes alike wherever their memory lies.
TEST(LossOnAGpu, InChunksHasTheBitsOfTheHostAndWaitsForNothing) {
  const c10::Device gpu(c10::kCUDA, 0);
  at::manual_seed(3);
  const at::Tensor targets = at::randint(-1, 64, {32}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor hidden = at::randn({32, 16}).to(type),
                     weight = at::randn({64, 16}).to(type);
    for (const int64_t chunk : {0, 8, 32}) {
      const auto on_host = losses_of(hidden, weight, targets, chunk);
      const at::Tensor x = hidden.to(gpu), w = weight.to(gpu), there = targets.to(gpu);
      const int waits = ask_standin("standin_num_host_waits");
      const auto on_gpu = losses_of(x, w, there, chunk);
      EXPECT_EQ(ask_standin("standin_num_host_waits"), waits) << type << " " << chunk;
      for (size_t i = 0; i < on_host.size(); ++i)
        EXPECT_TRUE(torch::equal(on_gpu[i].cpu(), on_host[i]))
            << type << " " << chunk << " " << i;
    }
  }
}

// Its kernels come after what is queued there, as its memory does.
TEST(LayersOnAnotherGpu, HaveTheBitsOfTheHost) {
  at::manual_seed(2);
  const c10::Device gpu(c10::kCUDA, 1);
  const at::Tensor gate = at::randn({40, 50}, at::kFloat), up = at::randn_like(gate);
  const at::Tensor gate_there = gate.to(gpu), up_there = up.to(gpu);
  const at::Tensor other = at::zeros({1 << 20}, at::kFloat).to(gpu);
  for (int time = 0; time < 20; ++time) other.add_(1);
  EXPECT_TRUE(torch::equal(swiglu(gate_there, up_there).cpu(), swiglu(gate, up)));
}

}  // namespace
}  // namespace zero::testing::layers_standin_test

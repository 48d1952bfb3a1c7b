#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/layers/torch/eager.h"
#include "launcher/bench/benches.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "zero/layers.h"

namespace zero::launcher {
namespace {

using Tensors = std::vector<at::Tensor>;
using Layer = at::Tensor (*)(const Tensors& inputs);

// A function of zero/layers.h and its expression, of inputs of which some need gradients.
struct LayerCase {
  std::string name;
  Layer ours, eager;
  Tensors inputs;
  int num_forward, num_backward;  // tensors of the first input's size read and written
};

at::Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes).to(type).requires_grad_();
}

// Of one sample, and few heads: attention without a window takes the square of its
// length.
constexpr int64_t kSeenKeys = 256;
at::Tensor attention_heads(int64_t numel, at::ScalarType type) {
  constexpr int64_t kLength = 8 * kSeenKeys, kHeadDim = 64, kMaxHeads = 16;
  const int64_t heads = std::clamp<int64_t>(numel / (kLength * kHeadDim), 1, kMaxHeads);
  const at::Tensor tokens = at::randn({1, kLength, heads, kHeadDim}).to(type);
  return tokens.transpose(1, 2).requires_grad_();
}

// The first input of each has so many elements, or a few less; but that of attention.
std::vector<LayerCase> layer_cases(int64_t numel, at::ScalarType type) {
  constexpr int64_t kWidth = 1024, kHeads = 16, kHeadDim = 64, kLength = 512;
  constexpr int64_t kClasses = 32768;
  const int64_t rows = std::max<int64_t>(1, numel / kWidth);
  const int64_t rows_of_logits = std::max<int64_t>(1, numel / kClasses);
  const int64_t samples = std::max<int64_t>(1, rows / kLength);
  const at::Tensor wide = random({rows, kWidth}, type);
  const at::Tensor heads = random({samples, kLength, kHeads, kHeadDim}, type);
  const at::Tensor turns = at::randn({kLength, kHeadDim / 2});
  const Tensors turned = {heads.detach().transpose(1, 2).requires_grad_(),
                          turns.cos().to(type), turns.sin().to(type)};
  return {
      {"rms_norm",
       [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-5); },
       [](const Tensors& in) { return eager::rms_norm(in[0], in[1], 1e-5); },
       {wide, random({kWidth}, type)},
       2,
       3},
      {"add_rms_norm",
       [](const Tensors& in) { return add_rms_norm(in[0], in[1], in[2], 1e-5).second; },
       [](const Tensors& in) { return eager::rms_norm(in[0] + in[1], in[2], 1e-5); },
       {wide, random({rows, kWidth}, type), random({kWidth}, type)},
       4,
       3},
      {"swiglu",
       [](const Tensors& in) { return swiglu(in[0], in[1]); },
       [](const Tensors& in) { return eager::swiglu(in[0], in[1]); },
       {wide, random({rows, kWidth}, type)},
       3,
       5},
      {"gelu_tanh",
       [](const Tensors& in) { return gelu_tanh(in[0]); },
       [](const Tensors& in) { return eager::gelu_tanh(in[0]); },
       {wide},
       2,
       3},
      {"rotate_halves",
       [](const Tensors& in) { return rotate_halves(in[0], in[1], in[2]); },
       [](const Tensors& in) { return eager::rotate_halves(in[0], in[1], in[2]); },
       turned, 2, 2},
      {"rotate_pairs",
       [](const Tensors& in) { return rotate_pairs(in[0], in[1], in[2]); },
       [](const Tensors& in) { return eager::rotate_pairs(in[0], in[1], in[2]); }, turned,
       2, 2},
      {"attention in a window",
       [](const Tensors& in) { return causal_attention(in[0], in[1], in[2], kSeenKeys); },
       [](const Tensors& in) {
         return eager::causal_attention(in[0], in[1], in[2], {}, kSeenKeys, 0);
       },
       {attention_heads(numel, type), attention_heads(numel, type),
        attention_heads(numel, type)},
       4,
       8},
      {"cross_entropy",
       [](const Tensors& in) { return cross_entropy(in[0], in[1]); },
       [](const Tensors& in) { return eager::cross_entropy(in[0], in[1]); },
       {random({rows_of_logits, kClasses}, type),
        at::randint(kClasses, {rows_of_logits}, at::kLong)},
       1,
       2}};
}

Contestant forward_of(Layer layer, const Tensors& inputs) {
  return [=] {
    const torch::NoGradGuard no_grad;
    return seconds_of([&] { layer(inputs); });
  };
}

// Of all that need gradients, by a graph that stays.
Contestant backward_of(Layer layer, const Tensors& inputs) {
  Tensors needed;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) needed.push_back(input);
  const at::Tensor y = layer(inputs), grad = at::ones_like(y);
  return [=] {
    return seconds_of([&] { torch::autograd::grad({y}, needed, {grad}, true); });
  };
}

// The memory's own speed: a sum of two arrays into a third, which also takes fresh
// memory, as long as it would take for so many tensors of that size.
Contestant triad_of(const at::Tensor& like, int num_tensors) {
  const at::Tensor a = at::ones({static_cast<int64_t>(like.nbytes()) / 4}), b = a.clone();
  return [=] { return seconds_of([&] { at::add(a, b); }) * num_tensors / 3; };
}

Row row_of(const LayerCase& each, const std::string& way, int num_tensors,
           const std::vector<Seconds>& seconds, int64_t threads) {
  const at::Tensor& x = each.inputs[0];
  Row row = {{"name", each.name + " " + way},
             {"type", x.scalar_type() == at::kFloat ? "fp32" : "bf16"},
             {"threads", threads},
             {"elements", x.numel()},
             {"eager_seconds", median(seconds[1])},
             {"faster_by", ratio_to_limit(seconds[0], seconds[1])}};
  return with_result(std::move(row), seconds[0],
                     static_cast<int64_t>(x.nbytes()) * num_tensors, "memory",
                     seconds[2]);
}

}  // namespace

std::vector<Row> bench_layer(const BenchOptions& options) {
  const ProcessSetup setup = set_up_process(options.settings, World(std::nullopt));
  std::vector<Row> rows;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const int64_t numel = options.size / static_cast<int64_t>(c10::elementSize(type));
    for (const LayerCase& each : layer_cases(numel, type)) {
      const auto add = [&](const std::string& way, auto contestant, int num_tensors) {
        const std::vector<Seconds> seconds = alternate(
            {contestant(each.ours, each.inputs), contestant(each.eager, each.inputs),
             triad_of(each.inputs[0], num_tensors)},
            options.rounds);
        rows.push_back(row_of(each, way, num_tensors, seconds, setup.threads));
      };
      add("forward", forward_of, each.num_forward);
      add("backward", backward_of, each.num_backward);
    }
  }
  return rows;
}

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace zero {

// The name of a module matches itself, the last parts of longer names, and as a glob:
// "q_proj", "mlp.c_proj", "*.layers.1?.*".
using ModuleNames = std::vector<std::string>;

// Low-rank adapters: a layer y = W x of which W stays as it is becomes
//
//   y + scale * B A dropout(x),   A (r, in), B (out, r)
//
// (Hu et al. 2021, arXiv 2106.09685; names and defaults are those of peft.)
struct LoraOptions {
  int64_t r = 8;
  double alpha = 8;
  bool rslora = false;  // scale is alpha / sqrt(r); else alpha / r
  double dropout = 0;   // of x, in training
  ModuleNames targets = {kAllLinear};
  ModuleNames modules_to_save = {};  // whose own parameters are trained, too
  // Of some layers, other than r and alpha: by the names of modules, no two of which may
  // match one layer and differ.
  std::map<std::string, int64_t> ranks = {};
  std::map<std::string, double> alphas = {};

  // Every linear layer that can have an adapter.
  static constexpr char kAllLinear[] = "all-linear";
  bool operator==(const LoraOptions&) const = default;
};

// Throws Error(kUsage) for numbers that make no adapter.
void check_lora(const LoraOptions& options);

// Freeze all parameters of `model`, and give its target layers adapters, which are
// trained: `<layer>.lora_A.weight` and `<layer>.lora_B.weight`. Returns the FQNs of these
// layers. Call it before an engine is made; under DeferredInit adapters have no memory,
// either.
//
// A layer that can have one is a zero::Linear, or of another class that is a LoraLayer
// (<zero/linear.h>). A starts as U(-1/sqrt(in), 1/sqrt(in)), B as zero, whatever
// Options::init says; the engine keeps both in fp32 and computes with them in fp32.
//
// Throws Error(kUsage) before anything has changed: for names that match nothing, for all
// targets that are a torch::nn::Linear, for a model that has adapters already.
std::vector<std::string> add_lora(torch::nn::Module& model, const LoraOptions& options);

// A layer that has an adapter, or could have one.
struct LoraTarget {
  std::string fqn = {};
  int64_t in = 0, out = 0;     // columns of what it is given, and of what it makes
  bool is_transposed = false;  // its weight is (in, out)
  int64_t rank = 0;            // 0: it has no adapter
  double scale = 1;            // of B A
  bool has_dropout = false;

  bool has_adapter() const { return rank > 0; }
};
std::vector<LoraTarget> lora_targets(const torch::nn::Module& model);

}  // namespace zero

#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "zero/layers.h"

namespace zero {

class ConfigReader;

// Rotary positions: each pair of a head's first `dim` values is turned by an angle that
// grows with the position. Types and formulas are those of transformers'
// modeling_rope_utils.py.
struct RotaryOptions {
  enum class Type { kDefault, kLinear, kLlama3, kYarn };
  Type type = Type::kDefault;
  int64_t dim = 0;  // even; 0: nothing is turned
  double theta = 10000;
  // All but kDefault: how many times longer the samples are than those of the training.
  double factor = 1;
  double original_positions = 0;         // those; kLlama3, kYarn
  double low_freq_factor = 1;            // kLlama3
  double high_freq_factor = 4;           // kLlama3
  double beta_fast = 32, beta_slow = 1;  // kYarn
  bool truncate = true;                  // kYarn
  double attention_factor = 1;           // of cosines and sines; kYarn
};

// Replace rope_theta, rope_scaling and the like, as older files have them, by the one
// "rope_parameters" of newer ones; with both, rope_scaling counts.
void modernise_rotary(nlohmann::json& config, const std::string& theta_key = "rope_theta",
                      const std::string& fraction_key = "partial_rotary_factor");

// Add those keys to a modern config, which older readers know alone.
void age_rotary(nlohmann::json& config, const std::string& theta_key = "rope_theta",
                const std::string& fraction_key = "");

// From "rope_parameters" of a modern config, for that many values of a head. Throws
// Error(kUsage) for types that are not here, by name.
RotaryOptions read_rotary(const ConfigReader& config, int64_t dim);

// How fast each pair turns, (dim / 2) fp32: radians a position.
at::Tensor rotary_frequencies(const RotaryOptions& options);

// Cosines and sines of positions 0, 1, ... of one forward.
struct RotaryAngles {
  at::Tensor cos, sin;  // (T, dim / 2), of the type of the activations
};

// Angles for a model's forwards; those of the last one are kept.
class RotaryTable {
 public:
  explicit RotaryTable(RotaryOptions options) : options_(options) {}
  // Of the type and on the device of `like`. Undefined where nothing is turned.
  const RotaryAngles& angles(int64_t length, const at::Tensor& like);

 private:
  const RotaryOptions options_;
  RotaryAngles angles_;
};

// Turn x (B, H, T, D), of each head the first values: pairs are those that lie half of
// `dim` apart (Llama, NeoX), or side by side (GPT-J).
inline at::Tensor rotate_halves(const at::Tensor& x, const RotaryAngles& angles) {
  return rotate_halves(x, angles.cos, angles.sin);
}
inline at::Tensor rotate_neighbours(const at::Tensor& x, const RotaryAngles& angles) {
  return rotate_pairs(x, angles.cos, angles.sin);
}

}  // namespace zero

#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace zero::launcher {

// How the next token is drawn of a model's logits: filters in the order of transformers'
// (generation/logits_process.py), each with its words and defaults; then by chance.
struct Sampling {
  double repetition_penalty = 1;  // of tokens that the text has already; 1: none
  double temperature = 0.8;       // 0: always the likeliest token
  int64_t top_k = 0;              // so many of the likeliest; 0: all
  double top_p = 1;               // the likeliest that have this share together
  double min_p = 0;               // those with this share of the likeliest one's
  bool operator==(const Sampling&) const = default;
};

// Logits after all filters, those that are left out -inf; `text`: the tokens before.
// With a temperature of 0 the penalty alone.
std::vector<double> filtered(std::span<const float> logits, std::span<const int64_t> text,
                             const Sampling& sampling);

// `text`: the tokens before it; `uniform` in [0, 1). Of equal logits the first counts.
// kNoToken where a logit is NaN.
inline constexpr int64_t kNoToken = -1;
int64_t choose_token(std::span<const float> logits, std::span<const int64_t> text,
                     const Sampling& sampling, double uniform);

// The logarithm of a token's share of softmax.
double log_prob(std::span<const float> logits, int64_t token);

}  // namespace zero::launcher

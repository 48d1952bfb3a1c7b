#include "launcher/inference/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace zero::launcher {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Once for each token, however often it stands there.
void penalise(std::vector<double>& scores, std::span<const int64_t> text,
              double penalty) {
  std::vector<bool> is_done(scores.size());
  for (const int64_t token : text) {
    if (is_done[token]) continue;
    is_done[token] = true;
    scores[token] = scores[token] < 0 ? scores[token] * penalty : scores[token] / penalty;
  }
}

// Those that are as likely as the last one stay.
void keep_top_k(std::vector<double>& scores, int64_t k) {
  if (k <= 0 || k >= std::ssize(scores)) return;
  std::vector<double> sorted = scores;
  std::ranges::nth_element(sorted, sorted.begin() + k - 1, std::greater());
  const double least = sorted[k - 1];
  for (double& score : scores)
    if (score < least) score = kNever;
}

// Likelihoods, of which the largest is 1.
std::vector<double> likelihoods(const std::vector<double>& scores) {
  const double largest = *std::ranges::max_element(scores);
  std::vector<double> likely;
  for (const double score : scores) likely.push_back(std::exp(score - largest));
  return likely;
}

// From the least likely one on, as many as have 1 - p together at most are left out; the
// likeliest stays.
void keep_top_p(std::vector<double>& scores, double p) {
  if (p >= 1) return;
  const std::vector<double> likely = likelihoods(scores);
  std::vector<int64_t> rising(scores.size());
  std::iota(rising.begin(), rising.end(), 0);
  std::ranges::stable_sort(rising, {}, [&](int64_t token) { return scores[token]; });
  const double most = (1 - p) * std::accumulate(likely.begin(), likely.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i + 1 < rising.size(); ++i) {
    sum += likely[rising[i]];
    if (sum > most) break;
    scores[rising[i]] = kNever;
  }
}

void keep_min_p(std::vector<double>& scores, double p) {
  if (p <= 0) return;
  const std::vector<double> likely = likelihoods(scores);
  for (size_t token = 0; token < scores.size(); ++token)
    if (likely[token] < p) scores[token] = kNever;
}

// Also where the temperature is so small that scores by it are no numbers.
bool takes_likeliest(const Sampling& sampling, const std::vector<double>& scores) {
  return sampling.temperature == 0 ||
         !std::isfinite(*std::ranges::max_element(scores) / sampling.temperature);
}

int64_t draw(const std::vector<double>& scores, double uniform) {
  std::vector<double> cumulative = likelihoods(scores);
  std::partial_sum(cumulative.begin(), cumulative.end(), cumulative.begin());
  const auto chosen = std::ranges::upper_bound(cumulative, uniform * cumulative.back());
  return std::min<int64_t>(chosen - cumulative.begin(), std::ssize(scores) - 1);
}

}  // namespace

std::vector<double> filtered(std::span<const float> logits, std::span<const int64_t> text,
                             const Sampling& sampling) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (sampling.repetition_penalty != 1)
    penalise(scores, text, sampling.repetition_penalty);
  if (takes_likeliest(sampling, scores)) return scores;
  for (double& score : scores) score /= sampling.temperature;
  keep_top_k(scores, sampling.top_k);
  keep_top_p(scores, sampling.top_p);
  keep_min_p(scores, sampling.min_p);
  return scores;
}

int64_t choose_token(std::span<const float> logits, std::span<const int64_t> text,
                     const Sampling& sampling, double uniform) {
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); }))
    return kNoToken;
  const std::vector<double> scores = filtered(logits, text, sampling);
  return takes_likeliest(sampling, scores)
             ? std::ranges::max_element(scores) - scores.begin()
             : draw(scores, uniform);
}

double log_prob(std::span<const float> logits, int64_t token) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return logits[token] - largest - std::log(sum);
}

}  // namespace zero::launcher

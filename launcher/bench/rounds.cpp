#include "launcher/bench/rounds.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace zero::launcher {

std::vector<Seconds> alternate(const std::vector<Contestant>& contestants,
                               int64_t num_rounds) {
  std::vector<Seconds> all(contestants.size());
  for (int64_t round = -1; round < num_rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      const double seconds = contestants[i]();
      if (round >= 0) all[i].push_back(seconds);
    }
  }
  return all;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double ratio_to_limit(const Seconds& measured, const Seconds& limit) {
  std::vector<double> ratios;
  for (size_t i = 0; i < measured.size(); ++i) ratios.push_back(limit[i] / measured[i]);
  return median(std::move(ratios));
}

double hidden_part(const Seconds& in_step, const Seconds& queued, const Seconds& none) {
  std::vector<double> parts;
  for (size_t i = 0; i < in_step.size(); ++i)
    parts.push_back((in_step[i] - queued[i]) / (in_step[i] - none[i]));
  return median(std::move(parts));
}

Seconds operator+(Seconds left, const Seconds& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

Seconds operator-(Seconds left, const Seconds& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] -= right[i];
  return left;
}

}  // namespace zero::launcher

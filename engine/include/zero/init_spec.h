#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zero {

// How the elements of one parameter start. Each element is a function of (seed, FQN, its
// index) alone, so that any number of ranks, each filling its own slice, makes the same
// tensor.
struct InitSpec {
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform };
  Kind kind = Kind::kConstant;
  double a = 0;                 // constant; mean; mean; lower bound
  double b = 0;                 // -; standard deviation; standard deviation; upper bound
  double low = -2, high = 2;    // truncated normal: bounds, in values
  int64_t zero_row_begin = -1;  // elements [zero_row_begin, zero_row_end) start as zero
                                // (an embedding's padding row)
  int64_t zero_row_end = -1;
};

InitSpec constant(double value);
InitSpec zeros();
InitSpec ones();
InitSpec normal(double mean, double std);
InitSpec truncated_normal(double mean, double std, double low, double high);
InitSpec uniform(double low, double high);
// torch's kaiming_uniform_(a = sqrt(5)), the default of Linear and Conv:
// U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
InitSpec kaiming_uniform(int64_t fan_in);

// FQN globs and what they start as; the first match wins.
using InitRules = std::vector<std::pair<std::string, InitSpec>>;

std::string to_string(const InitSpec& spec);  // "normal(0, 0.02)"

// What its numbers would have to be; empty: they can be used.
std::string problem_of(const InitSpec& spec);

// Write elements [begin, begin + values.size()) of the parameter `fqn`.
void fill(const InitSpec& spec, uint64_t seed, const std::string& fqn, int64_t begin,
          std::span<float> values);

}  // namespace zero

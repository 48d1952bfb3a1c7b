#include "launcher/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "base/hash.h"
#include "launcher/data/mapped_file.h"
#include "launcher/data/token_source.h"

namespace zero::data {
namespace {

constexpr int kNumRounds = 8;

// One of 4^half_bits numbers for another.
uint64_t encrypt(uint64_t value, uint64_t key, int half_bits) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < kNumRounds; ++round) {
    const uint64_t scrambled = splitmix(splitmix(key + round) ^ right) & mask;
    left ^= scrambled;
    std::swap(left, right);
  }
  return (left << half_bits) | right;
}

}  // namespace

int64_t count_samples(const TokenSource& source, int64_t seq_len) {
  if (seq_len < 1) {
    throw DataError(fmt::format("a sample of {} tokens is asked for", seq_len),
                    "--seq-len", "set --seq-len to at least 1");
  }
  if (source.num_tokens() - 1 >= seq_len) return (source.num_tokens() - 1) / seq_len;
  throw DataError(
      fmt::format(
          "the data holds {} tokens, shorter than one sample of {} inputs and a target",
          source.num_tokens(), seq_len),
      source.where(),
      source.num_tokens() < 2 ? std::string("more data there")
                              : fmt::format("more data there, or --seq-len {} at most",
                                            source.num_tokens() - 1));
}

Split split_samples(int64_t num_samples, double fraction) {
  constexpr int64_t kFewest = 100, kMost = 1000;
  if (fraction == 0 || num_samples < kFewest) return {{0, num_samples}, {}};
  const auto share = static_cast<int64_t>(static_cast<double>(num_samples) * fraction);
  const int64_t held_out = std::clamp<int64_t>(share, 1, kMost);
  return {{0, num_samples - held_out}, {num_samples - held_out, held_out}};
}

int64_t shuffled_place(int64_t i, int64_t n, uint64_t seed, uint64_t epoch) {
  assert(0 <= i && i < n);
  const auto range = static_cast<uint64_t>(n);
  const int half_bits = std::max(1, static_cast<int>(std::bit_width(range - 1) + 1) / 2);
  const uint64_t key = splitmix(splitmix(seed) + epoch);
  auto value = static_cast<uint64_t>(i);
  do {
    value = encrypt(value, key, half_bits);
  } while (value >= range);  // ends: the cycle through i comes back to i, below n
  return static_cast<int64_t>(value);
}

int64_t sample_place(int64_t global_index, int64_t n, bool shuffle, uint64_t seed) {
  assert(global_index >= 0);
  const int64_t place = global_index % n;
  return shuffle ? shuffled_place(place, n, seed, static_cast<uint64_t>(global_index / n))
                 : place;
}

Sampler::Sampler(const TokenSource& source, int64_t seq_len, const SampleOrder& order)
    : source_(source),
      seq_len_(seq_len),
      order_(order),
      num_samples_(order.range.count > 0 ? order.range.count
                                         : count_samples(source, seq_len)) {
  assert(order.range.first + num_samples_ <= count_samples(source, seq_len));
}

int64_t Sampler::sample_number(int64_t global_index) const {
  return sample_place(global_index, num_samples_, order_.shuffle, order_.seed);
}

void Sampler::sample(int64_t global_index, int64_t* tokens) const {
  const int64_t number = order_.range.first + sample_number(global_index);
  source_.read(number * seq_len_, seq_len_ + 1, tokens);
}

Batch empty_batch(int64_t rows, int64_t seq_len) {
  const size_t numel = rows * seq_len;
  return {rows, seq_len, std::vector<int64_t>(numel, 0), std::vector<int64_t>(numel, -1)};
}

Batch Sampler::empty_batch(int64_t rows) const {
  return data::empty_batch(rows, seq_len_);
}

void Sampler::read(std::span<const int64_t> indices, Batch& batch) const {
  std::vector<int64_t> tokens(seq_len_ + 1);
  for (size_t row = 0; row < indices.size(); ++row) {
    sample(indices[row], tokens.data());
    const auto begin = static_cast<ptrdiff_t>(row) * seq_len_;
    std::copy_n(tokens.begin(), seq_len_, batch.inputs.begin() + begin);
    std::copy_n(tokens.begin() + 1, seq_len_, batch.targets.begin() + begin);
  }
}

}  // namespace zero::data

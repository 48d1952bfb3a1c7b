#include "launcher/data/sampler.h"

#include <fmt/format.h>

#include <cassert>

#include "launcher/data/error.h"
#include "launcher/data/permutation.h"
#include "launcher/data/token_source.h"

namespace zero::data {
namespace {

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
      source.num_tokens() < 2
          ? std::string("give more data")
          : fmt::format("give more data, or set --seq-len to at most {}",
                        source.num_tokens() - 1));
}

}  // namespace

Sampler::Sampler(const TokenSource& source, const SamplerOptions& options)
    : source_(source),
      options_(options),
      num_samples_(count_samples(source, options.seq_len)) {}

int64_t Sampler::sample_number(int64_t global_index) const {
  assert(global_index >= 0);
  const int64_t place = global_index % num_samples_;
  if (!options_.shuffle) return place;
  const auto key = static_cast<uint64_t>(epoch(global_index));
  return Permutation(num_samples_, options_.seed, key)(place);
}

void Sampler::sample(int64_t global_index, int64_t* tokens) const {
  const int64_t begin = sample_number(global_index) * options_.seq_len;
  source_.read(begin, options_.seq_len + 1, tokens);
}

}  // namespace zero::data

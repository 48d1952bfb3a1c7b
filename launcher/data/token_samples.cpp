// Rows of tokens.
#include <algorithm>

#include "launcher/data/samples.h"
#include "launcher/data/token_source.h"

namespace zero::data {
namespace {

class TokenSamples : public Samples {
 public:
  TokenSamples(const TokenSource& source, const SamplerOptions& options)
      : seq_len_(options.seq_len), sampler_(source, options) {}

  int64_t num_samples() const override { return sampler_.num_samples(); }

  Batch empty_batch(int64_t rows) const override {
    return data::empty_batch(rows, seq_len_);
  }

  void read(std::span<const int64_t> indices, Batch& batch) const override {
    std::vector<int64_t> tokens(seq_len_ + 1);
    for (size_t row = 0; row < indices.size(); ++row) {
      sampler_.sample(indices[row], tokens.data());
      const auto begin = static_cast<ptrdiff_t>(row) * seq_len_;
      std::copy_n(tokens.begin(), seq_len_, batch.inputs.begin() + begin);
      std::copy_n(tokens.begin() + 1, seq_len_, batch.targets.begin() + begin);
    }
  }

 private:
  const int64_t seq_len_;
  const Sampler sampler_;
};

}  // namespace

Batch empty_batch(int64_t rows, int64_t seq_len) {
  const size_t numel = rows * seq_len;
  return {rows, seq_len, std::vector<int64_t>(numel, 0), std::vector<int64_t>(numel, -1)};
}

int64_t TokenSource::num_samples(const SampleShape& shape) const {
  return count_samples(*this, shape.seq_len);
}

std::unique_ptr<Samples> TokenSource::samples(const SampleShape& shape,
                                              const SampleOrder& order) const {
  return std::make_unique<TokenSamples>(
      *this, SamplerOptions{shape.seq_len, order.shuffle, order.seed, order.range});
}

}  // namespace zero::data

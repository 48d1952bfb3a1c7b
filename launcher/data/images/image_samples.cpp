// Rows of images.
#include "launcher/data/images/image_sampler.h"
#include "launcher/data/samples.h"
#include "offload/thread_pool.h"

namespace zero::data {
namespace {

class ImageSamples : public Samples {
 public:
  ImageSamples(const ImageSource& source, const ImageSamplerOptions& options)
      : size_(options.augmentation.size), sampler_(source, options) {}

  int64_t num_samples() const override { return sampler_.num_samples(); }

  Batch empty_batch(int64_t rows) const override {
    Batch batch{.rows = rows, .seq_len = 1, .image_size = size_};
    batch.targets.assign(rows, -1);
    batch.pixels.assign(rows * sampler_.num_pixels(), 0);
    return batch;
  }

  void read(std::span<const int64_t> indices, Batch& batch) const override {
    sampler_.read_rows(indices, batch.pixels.data(), batch.targets.data(), threads_);
  }

 private:
  const int64_t size_;
  const ImageSampler sampler_;
  mutable ThreadPool threads_;  // may be used by several threads at once
};

}  // namespace

std::unique_ptr<Samples> ImageSource::samples(const SampleShape& shape,
                                              const SampleOrder& order) const {
  ImageSamplerOptions options;
  options.augmentation.size = shape.image_size;
  options.augmentation.crop = shape.is_augmented ? Crop::kRandom : Crop::kCentre;
  options.augmentation.flip = shape.is_augmented;
  options.shuffle = order.shuffle;
  options.seed = order.seed;
  options.range = order.range;
  return std::make_unique<ImageSamples>(*this, options);
}

}  // namespace zero::data

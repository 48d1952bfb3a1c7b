#include "launcher/data/images/image_sampler.h"

#include <cassert>
#include <exception>
#include <vector>

namespace zero::data {

int64_t mixed_place(int64_t place, int64_t num_images) {
  constexpr uint64_t kSeed = 0x1a6e5;  // of runs that go on: a change mixes held-out
                                       // images in
  return shuffled_place(place, num_images, kSeed, 0);
}

ImageSampler::ImageSampler(const ImageSource& source, const Augmentation& augmentation,
                           const SampleOrder& order)
    : source_(source),
      augmentation_(augmentation),
      order_(order),
      num_samples_(order.range.count > 0 ? order.range.count : source.num_images()) {
  assert(order.range.first + num_samples_ <= source.num_images());
}

int64_t ImageSampler::num_pixels() const {
  return 3 * augmentation_.size * augmentation_.size;
}

int64_t ImageSampler::image_number(int64_t global_index) const {
  const int64_t place =
      sample_place(global_index, num_samples_, order_.shuffle, order_.seed);
  if (order_.range.count == 0) return place;
  return mixed_place(order_.range.first + place, source_.num_images());
}

void ImageSampler::read(int64_t global_index, float* pixels, int64_t* label) const {
  const int64_t number = image_number(global_index);
  const Image image = source_.read(number);
  const ViewKey key{order_.seed, epoch(global_index), number};
  const View view = view_of(image.height, image.width, augmentation_, key);
  write_pixels(image, view, augmentation_, pixels);
  *label = source_.label(number);
}

void ImageSampler::read_rows(std::span<const int64_t> global_indices, float* pixels,
                             int64_t* labels, ThreadPool& threads) const {
  std::vector<std::exception_ptr> errors(global_indices.size());
  threads.parallel_for(std::ssize(global_indices), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) try {
        read(global_indices[row], pixels + row * num_pixels(), labels + row);
      } catch (...) {
        errors[row] = std::current_exception();
      }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

Batch ImageSampler::empty_batch(int64_t rows) const {
  Batch batch{.rows = rows, .seq_len = 1, .image_size = augmentation_.size};
  batch.targets.assign(rows, -1);
  batch.pixels.assign(rows * num_pixels(), 0);
  return batch;
}

}  // namespace zero::data

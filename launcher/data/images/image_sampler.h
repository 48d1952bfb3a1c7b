#pragma once
#include <cstdint>
#include <span>

#include "launcher/data/images/image_source.h"
#include "launcher/data/images/image_view.h"
#include "launcher/data/sampler.h"
#include "offload/thread_pool.h"

namespace zero::data {

// The number of the image at that place of a fixed mixture of them, the same for all
// seeds. Images of one class lie together in the data, so its end alone would be a poor
// sample of it to hold out.
int64_t mixed_place(int64_t place, int64_t num_images);

// Address views of images by a global index that counts on through all epochs, as Sampler
// does. The index decides image and view; neither ranks, threads nor time do.
class ImageSampler : public Samples {
 public:
  // `source` must outlive the sampler. The seed is that of the order and of the views. A
  // range of the data, as split_samples() makes them, is one of mixed_place()'s order.
  ImageSampler(const ImageSource& source, const Augmentation& augmentation,
               const SampleOrder& order);

  int64_t num_samples() const override { return num_samples_; }
  int64_t epoch(int64_t global_index) const { return global_index / num_samples_; }
  int64_t num_pixels() const;                        // of a view: 3 * size * size
  int64_t image_number(int64_t global_index) const;  // in the source

  // Write a view's pixels to (3, size, size), and its label. Throws DataError for an
  // image that is damaged or changed. Safe from several threads.
  void read(int64_t global_index, float* pixels, int64_t* label) const;

  // Read one view for each index into a row of (rows, 3, size, size) and of (rows), by
  // all threads. Of several errors the lowest row's is thrown.
  void read_rows(std::span<const int64_t> global_indices, float* pixels, int64_t* labels,
                 ThreadPool& threads) const;

  Batch empty_batch(int64_t rows) const override;
  void read(std::span<const int64_t> indices, Batch& batch) const override {
    read_rows(indices, batch.pixels.data(), batch.targets.data(), threads_);
  }

 private:
  const ImageSource& source_;
  Augmentation augmentation_;
  SampleOrder order_;
  int64_t num_samples_;
  mutable ThreadPool threads_;  // may be used by several threads at once
};

}  // namespace zero::data

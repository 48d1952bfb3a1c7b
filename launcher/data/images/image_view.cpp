#include "launcher/data/images/image_view.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "offload/random.h"

namespace zero::data {
namespace {

constexpr double kLeastScale = 0.08;                           // of the area
constexpr double kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;  // width over height
constexpr uint64_t kNumTries = 10;

// Philox's numbers for one view, four words a draw; each draw has a number of its own.
enum Draw : uint64_t { kFlip = kNumTries, kPlace };

using Words = std::array<uint32_t, 4>;

Words draw_words(const ViewKey& key, uint64_t draw) {
  const uint64_t seed =
      hash_key(hash_key(key.seed, "views of images"), static_cast<uint64_t>(key.epoch));
  return philox(seed, draw, static_cast<uint64_t>(key.image));
}

double uniform(uint32_t word, double low, double high) {
  return low + (high - low) * ((word + 0.5) / 4294967296.0);
}

// In [0, count).
int64_t below(uint32_t word, int64_t count) {
  return static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(count) >> 32);
}

// e^x for |x| < 0.3, in operations that are rounded alike everywhere: std::exp is not.
double exp_near_zero(double x) {
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * x / i;
  return sum;
}

// log(4/3), of which the ratio's logarithm lies no further from 0.
constexpr double kLogOfMost = 0.28768207245178090;

int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

// One try at a part of the image.
std::optional<Box> try_box(int64_t height, int64_t width, const Words& words) {
  const double area =
      static_cast<double>(height * width) * uniform(words[0], kLeastScale, 1);
  const double ratio = exp_near_zero(uniform(words[1], -kLogOfMost, kLogOfMost));
  const int64_t box_width = rounded(std::sqrt(area * ratio));
  const int64_t box_height = rounded(std::sqrt(area / ratio));
  if (box_width < 1 || box_width > width || box_height < 1 || box_height > height)
    return {};
  return Box{below(words[2], height - box_height + 1),
             below(words[3], width - box_width + 1), box_height, box_width};
}

Box central_box(int64_t height, int64_t width) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Box box{0, 0, height, width};
  if (ratio < kLeastRatio)
    box.height = std::min(height, rounded(static_cast<double>(width) / kLeastRatio));
  if (ratio > kMostRatio)
    box.width = std::min(width, rounded(static_cast<double>(height) * kMostRatio));
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

Box random_box(int64_t height, int64_t width, const ViewKey& key) {
  for (uint64_t attempt = 0; attempt < kNumTries; ++attempt)
    if (const auto box = try_box(height, width, draw_words(key, attempt))) return *box;
  return central_box(height, width);
}

// All of the image, the shorter side of that length.
View resized_view(int64_t height, int64_t width, int64_t shorter) {
  View view{.box = {0, 0, height, width}, .height = shorter, .width = shorter};
  if (height < width) view.width = shorter * width / height;
  if (width < height) view.height = shorter * height / width;
  return view;
}

// Half of a difference, an odd one rounded to the even half, as Python does.
int64_t half(int64_t difference) { return rounded(static_cast<double>(difference) / 2); }

View centre_view(int64_t height, int64_t width, int64_t size) {
  const bool fits = height == size && width == size;
  View view = resized_view(height, width, fits ? size : (size * 256 + 112) / 224);
  view.top = half(view.height - size);
  view.left = half(view.width - size);
  return view;
}

// Of an image that has the size.
View padded_view(int64_t size, const ViewKey& key) {
  View view = resized_view(size, size, size);
  const Words words = draw_words(key, kPlace);
  const int64_t padding = std::min(kPadding, size - 1);  // so that some of it is seen
  view.top = below(words[0], 2 * padding + 1) - padding;
  view.left = below(words[1], 2 * padding + 1) - padding;
  return view;
}

View cropped_view(int64_t height, int64_t width, const Augmentation& augmentation,
                  const ViewKey& key) {
  const int64_t size = augmentation.size;
  if (augmentation.crop == Crop::kCentre) return centre_view(height, width, size);
  if (height == size && width == size) return padded_view(size, key);
  return {.box = random_box(height, width, key), .height = size, .width = size};
}

// The part of the resized image that is seen.
Box seen_part(const View& view) {
  const int64_t top = std::max<int64_t>(view.top, 0);
  const int64_t left = std::max<int64_t>(view.left, 0);
  return {top, left, std::min(view.height, view.top + view.size) - top,
          std::min(view.width, view.left + view.size) - left};
}

// What each byte of a channel becomes.
std::array<float, 256> normalised_bytes(float mean, float std) {
  std::array<float, 256> values;
  for (int i = 0; i < 256; ++i) values[i] = (static_cast<float>(i) / 255.0f - mean) / std;
  return values;
}

}  // namespace

View view_of(int64_t height, int64_t width, const Augmentation& augmentation,
             const ViewKey& key) {
  View view = cropped_view(height, width, augmentation, key);
  view.size = augmentation.size;
  view.is_flipped = augmentation.flip && draw_words(key, kFlip)[0] >> 31 == 1;
  return view;
}

void write_pixels(const Image& image, const View& view, const Augmentation& augmentation,
                  float* out) {
  const Box seen = seen_part(view);
  const Image part = resample(image, view.box, view.height, view.width, seen);
  const int64_t size = view.size, area = size * size;
  const int64_t left = seen.left - view.left, top = seen.top - view.top;
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto values =
        normalised_bytes(augmentation.mean[channel], augmentation.std[channel]);
    float* plane = out + channel * area;
    std::fill_n(plane, area, values[0]);
    for (int64_t y = 0; y < part.height; ++y) {
      const uint8_t* from = part.rgb.data() + y * part.width * 3 + channel;
      float* row = plane + (top + y) * size;
      for (int64_t x = 0; x < part.width; ++x) {
        const int64_t column = left + x;
        row[view.is_flipped ? size - 1 - column : column] = values[from[x * 3]];
      }
    }
  }
}

}  // namespace zero::data

#pragma once
#include <array>
#include <cstdint>

#include "launcher/data/images/resample.h"

namespace zero::data {

// How a square is cut out of an image.
enum class Crop {
  kCentre,  // for evaluations: the shorter side becomes size * 256/224, then the centre;
            // an image of the size itself stays as it is
  kRandom   // any part of the image that is a rectangle near to a square, resized; of
            // images that have the size any square, with kPadding black pixels around
};

inline constexpr int64_t kPadding = 4;

// What a model sees of images.
struct Augmentation {
  int64_t size = 224;  // of a side, in pixels
  Crop crop = Crop::kCentre;
  bool flip = false;  // left and right, every other time
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};  // of red, green, blue in [0, 1]
  std::array<float, 3> std = {0.229f, 0.224f, 0.225f};   // ImageNet's
};

// One view of one image: `box` of it is resized to height x width; of that the square
// from (top, left) on is seen, of which what lies outside is black.
struct View {
  Box box;
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0;
  int64_t size = 0;
  bool is_flipped = false;
  bool operator==(const View&) const = default;
};

// What random numbers of a view depend on: whoever makes it, whenever, makes the same.
struct ViewKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t image = 0;  // its number in the data
};

// The view of an image of height x width pixels; random unless the crop is kCentre
// without a flip. A part is chosen as RandomResizedCrop of torchvision does: ten tries at
// 8 to 100% of the area and a ratio of sides between 3/4 and 4/3, then as much of the
// centre as such ratios allow.
View view_of(int64_t height, int64_t width, const Augmentation& augmentation,
             const ViewKey& key);

// Write the view's pixels to (3, size, size): (value / 255 - mean) / std.
void write_pixels(const Image& image, const View& view, const Augmentation& augmentation,
                  float* out);

}  // namespace zero::data

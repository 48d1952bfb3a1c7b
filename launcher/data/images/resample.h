#pragma once
#include <cstdint>
#include <vector>

#include "launcher/data/images/decode.h"

namespace zero::data {

// Part of a picture, in pixels.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

// Weights of a line's pixels for those of another length: new pixel i is the sum of
// weights[i * most + k] * old pixel (first[i] + k), k below count[i], over 2^22.
struct LineWeights {
  int64_t most = 0;
  std::vector<int64_t> first = {}, count = {};
  std::vector<int32_t> weights = {};
};

// For new pixels [begin, end) of `after` that replace `before`: a triangle that is as
// wide as a new pixel and its neighbours, at least as an old one and its neighbours.
LineWeights line_weights(int64_t before, int64_t after, int64_t begin, int64_t end);

// Resize the box of an image to height x width, and return the window of the result,
// which lies inside it.
//
// Bilinear with antialiasing, in integers: the bits are those of Pillow's
// image.crop(box).resize((width, height), BILINEAR).crop(window) on any processor.
Image resample(const Image& image, const Box& box, int64_t height, int64_t width,
               const Box& window);

}  // namespace zero::data

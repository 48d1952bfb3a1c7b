#include "launcher/data/images/resample.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace zero::data {
namespace {

constexpr int kWeightBits = 22;
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

uint8_t rounded_pixel(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// One line of pixels of three channels.
void resample_row(const uint8_t* from, const LineWeights& weights, uint8_t* to) {
  for (size_t i = 0; i < weights.first.size(); ++i) {
    const int32_t* weight = weights.weights.data() + i * weights.most;
    const uint8_t* pixel = from + weights.first[i] * 3;
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int64_t k = 0; k < weights.count[i]; ++k) {
      red += pixel[k * 3] * weight[k];
      green += pixel[k * 3 + 1] * weight[k];
      blue += pixel[k * 3 + 2] * weight[k];
    }
    to[i * 3] = rounded_pixel(red);
    to[i * 3 + 1] = rounded_pixel(green);
    to[i * 3 + 2] = rounded_pixel(blue);
  }
}

// New row i out of rows of row_bytes bytes, of which the first is number `offset`.
void resample_column(const std::vector<uint8_t>& rows, int64_t row_bytes, int64_t offset,
                     const LineWeights& weights, int64_t i, std::vector<int32_t>& sums,
                     uint8_t* to) {
  std::ranges::fill(sums, kHalf);
  for (int64_t k = 0; k < weights.count[i]; ++k) {
    const uint8_t* from = rows.data() + (weights.first[i] + k - offset) * row_bytes;
    const int32_t weight = weights.weights[i * weights.most + k];
    for (int64_t x = 0; x < row_bytes; ++x) sums[x] += from[x] * weight;
  }
  for (int64_t x = 0; x < row_bytes; ++x) to[x] = rounded_pixel(sums[x]);
}

}  // namespace

LineWeights line_weights(int64_t before, int64_t after, int64_t begin, int64_t end) {
  const double scale = static_cast<double>(before) / static_cast<double>(after);
  const double support = std::max(scale, 1.0);
  LineWeights line{.most = static_cast<int64_t>(std::ceil(support)) * 2 + 1};
  line.weights.resize(static_cast<size_t>((end - begin) * line.most));
  std::vector<double> exact(static_cast<size_t>(line.most));
  for (int64_t i = begin; i < end; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto last =
        std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), before);
    double sum = 0;
    for (int64_t k = 0; k < last - first; ++k) {
      const double distance = static_cast<double>(k + first) - centre + 0.5;
      exact[k] = triangle(distance * (1.0 / support));
      sum += exact[k];
    }
    int32_t* weights = line.weights.data() + (i - begin) * line.most;
    for (int64_t k = 0; k < last - first; ++k)
      weights[k] = static_cast<int32_t>(0.5 + exact[k] / sum * (1 << kWeightBits));
    line.first.push_back(first);
    line.count.push_back(last - first);
  }
  return line;
}

Image resample(const Image& image, const Box& box, int64_t height, int64_t width,
               const Box& window) {
  assert(box.top >= 0 && box.left >= 0 && box.top + box.height <= image.height &&
         box.left + box.width <= image.width);
  const LineWeights across =
      line_weights(box.width, width, window.left, window.left + window.width);
  const LineWeights down =
      line_weights(box.height, height, window.top, window.top + window.height);
  const int64_t row_bytes = window.width * 3;
  // Only those rows that the window is made of.
  const int64_t first = down.first.front();
  const int64_t num_rows = down.first.back() + down.count.back() - first;
  std::vector<uint8_t> rows(static_cast<size_t>(num_rows * row_bytes));
  for (int64_t y = 0; y < num_rows; ++y) {
    const int64_t begin = (box.top + first + y) * image.width + box.left;
    resample_row(image.rgb.data() + begin * 3, across, rows.data() + y * row_bytes);
  }
  Image result{window.height, window.width, {}};
  result.rgb.resize(static_cast<size_t>(window.height * row_bytes));
  std::vector<int32_t> sums(static_cast<size_t>(row_bytes));
  for (int64_t y = 0; y < window.height; ++y)
    resample_column(rows, row_bytes, first, down, y, sums,
                    result.rgb.data() + y * row_bytes);
  return result;
}

}  // namespace zero::data

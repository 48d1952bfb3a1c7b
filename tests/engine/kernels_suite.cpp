// The kernels against the host's loops, bit by bit: linked with a GPU made of threads
// (tests/standin), and with a real one (tests/gpu).
#include "tests/engine/kernels_suite.h"

#include <bit>
#include <cmath>

#include "engine/comm/host_memory.h"
#include "engine/device/cuda/kernels.h"
#include "offload/bf16.h"
#include "tests/offload/test_data.h"

namespace zero::testing {
namespace {

// On both sides of a group, a leaf, a block of threads and its groups.
const std::vector<int64_t> kNumels = {1, 2, 3, 4, 5, 63, 64, 65, 255, 1023, 1024, 4099};

// Every NaN is one: its payload may differ.
std::vector<uint32_t> bits_of(std::vector<float> values) {
  for (float& value : values)
    if (std::isnan(value)) value = std::nanf("");
  return zero::bits_of(values);
}

std::vector<uint16_t> rounded(const std::vector<float>& values) {
  std::vector<uint16_t> bf16(values.size());
  convert_to_bf16(values.data(), bf16.data(), std::ssize(values));
  return bf16;
}

// --- the sum of pieces

template <class T>
std::vector<float> host_sum(const std::vector<T>& pieces, DType type, int num_pieces,
                            int64_t stride, int64_t numel) {
  std::vector<const void*> sources;
  for (int i = 0; i < num_pieces; ++i) sources.push_back(pieces.data() + i * stride);
  std::vector<float> sum(numel);
  tree_sum(sources, type, sum.data(), numel);
  return sum;
}

TEST(TreeSumKernel, AddsUpLikeTheHost) {
  for (const int num_pieces : {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 31, 32, 33, 71}) {
    for (const int64_t numel : {1, 5, 64, 333}) {
      for (const int64_t gap : {0, 3, 8}) {
        SCOPED_TRACE(::testing::Message()
                     << num_pieces << " pieces of " << numel << " and " << gap);
        const int64_t stride = numel + gap;
        const std::vector<float> pieces = spread_values(num_pieces * stride, 5, 1.0f);
        const GpuArray<float> from(pieces), to(numel);
        queue_tree_sum(to.data(), from.data(), DType::kFp32, num_pieces, stride, numel,
                       nullptr);
        EXPECT_EQ(bits_of(to.read()),
                  bits_of(host_sum(pieces, DType::kFp32, num_pieces, stride, numel)));

        const std::vector<uint16_t> halves = rounded(pieces);
        const GpuArray<uint16_t> from_bf16(halves);
        queue_tree_sum(to.data(), from_bf16.data(), DType::kBf16, num_pieces, stride,
                       numel, nullptr);
        EXPECT_EQ(bits_of(to.read()),
                  bits_of(host_sum(halves, DType::kBf16, num_pieces, stride, numel)));
      }
    }
  }
}

TEST(TreeSumKernel, DoesNotAddUpInAnotherOrder) {
  const std::vector<float> pieces = {1.0f, 0x1p-24f, 0x1p-24f, 0x1p-24f};
  const GpuArray<float> from(pieces), to(1);
  queue_tree_sum(to.data(), from.data(), DType::kFp32, 4, 1, 1, nullptr);
  EXPECT_EQ(to.read()[0], 1 + 0x1p-23f);  // one after the other, all but 1 would vanish
}

TEST(TreeSumKernel, WritesOverAPiece) {
  const int64_t numel = 1000;
  const std::vector<float> pieces = spread_values(3 * numel, 6, 1.0f);
  for (const int64_t which : {0, 1, 2}) {
    const GpuArray<float> all(pieces);
    queue_tree_sum(all.data() + which * numel, all.data(), DType::kFp32, 3, numel, numel,
                   nullptr);
    const std::vector<float> found = all.read();
    const auto begin = found.begin() + which * numel;
    EXPECT_EQ(bits_of({begin, begin + numel}),
              bits_of(host_sum(pieces, DType::kFp32, 3, numel, numel)));
  }
}

TEST(TreeSumKernel, KeepsNansInfinitiesAndSmallNumbers) {
  const float infinity = INFINITY, tiny = 0x1p-149f, huge = 0x1.fffffep127f;
  const std::vector<float> pieces = {infinity,  tiny, huge, -0.0f, NAN,  0x1p-126f,
                                     -infinity, tiny, huge, -0.0f, 1.0f, -tiny};
  const GpuArray<float> from(pieces), to(6);
  queue_tree_sum(to.data(), from.data(), DType::kFp32, 2, 6, 6, nullptr);
  EXPECT_EQ(bits_of(to.read()), bits_of(host_sum(pieces, DType::kFp32, 2, 6, 6)));
}

TEST(TreeSumKernel, BeginsAnywhere) {
  for (const int64_t numel : kNumels) {
    for (int64_t offset = 0; offset < 5; ++offset) {
      const std::vector<float> pieces = spread_values(3 * numel, 7, 1.0f);
      const GpuArray<float> from(pieces, offset), to(numel, (offset + 2) % 4);
      queue_tree_sum(to.data(), from.data(), DType::kFp32, 3, numel, numel, nullptr);
      EXPECT_EQ(bits_of(to.read()),
                bits_of(host_sum(pieces, DType::kFp32, 3, numel, numel)))
          << numel << " from " << offset;
    }
  }
}

}  // namespace
}  // namespace zero::testing

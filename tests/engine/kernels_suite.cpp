// The kernels against the host's loops, bit by bit: linked with a GPU made of threads
// (tests/standin), and with a real one (tests/gpu).
#include "tests/engine/kernels_suite.h"

#include <bit>
#include <cmath>
#include <stdexcept>

#include "base/dtype.h"
#include "engine/comm/host_memory.h"
#include "engine/device/cuda/kernels.h"
#include "engine/step/addition.h"
#include "offload/convert.h"
#include "offload/decode.h"
#include "offload/exact_sum.h"
#include "offload/kernels.h"
#include "offload/stored_values.h"
#include "offload/thread_pool.h"
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

// --- one element after the other

TEST(CastKernel, RoundsEveryFloatLikeTheHost) {
  std::vector<float> all;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff})
      all.push_back(std::bit_cast<float>(high << 16 | low));
  }
  const GpuArray<float> from(all);
  const GpuArray<uint16_t> to(std::ssize(all));
  queue_cast(to.data(), DType::kBf16, from.data(), DType::kFp32, std::ssize(all),
             nullptr);
  EXPECT_EQ(to.read(), rounded(all));
}

TEST(CastKernel, RoundsToFp16LikeTheHost) {
  std::vector<float> all;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : {0x0000, 0x0fff, 0x1000, 0x1001, 0x2000, 0x3000, 0xffff})
      all.push_back(std::bit_cast<float>(high << 16 | low));
  }
  std::vector<uint16_t> expected(all.size());
  convert_to_fp16(all.data(), expected.data(), std::ssize(all));
  const GpuArray<float> from(all);
  const GpuArray<uint16_t> to(std::ssize(all));
  queue_cast(to.data(), DType::kFp16, from.data(), DType::kFp32, std::ssize(all),
             nullptr);
  EXPECT_EQ(to.read(), expected);
}

TEST(CastKernel, WidensEveryBf16) {
  std::vector<uint16_t> all(65536);
  std::vector<uint32_t> expected(65536);
  for (uint32_t i = 0; i < 65536; ++i)
    all[i] = static_cast<uint16_t>(i), expected[i] = i << 16;
  const GpuArray<uint16_t> from(all);
  const GpuArray<float> to(65536);
  queue_cast(to.data(), DType::kFp32, from.data(), DType::kBf16, 65536, nullptr);
  EXPECT_EQ(zero::bits_of(to.read()), expected);
}

TEST(CastKernel, BeginsAnywhere) {
  for (const int64_t numel : kNumels) {
    for (int64_t offset = 0; offset < 9; ++offset) {
      const std::vector<float> values = spread_values(numel, 8, 1.0f);
      const GpuArray<float> from(values, offset % 4), back(numel, offset % 3);
      const GpuArray<uint16_t> to(numel, offset);
      queue_cast(to.data(), DType::kBf16, from.data(), DType::kFp32, numel, nullptr);
      queue_cast(back.data(), DType::kFp32, to.data(), DType::kBf16, numel, nullptr);
      EXPECT_EQ(to.read(), rounded(values)) << numel << " from " << offset;
      EXPECT_EQ(rounded(back.read()), rounded(values)) << numel << " from " << offset;
    }
  }
}

// --- weights that are kept in another type

TEST(DecodeKernel, DecodesLikeTheHost) {
  ThreadPool threads(1);
  for (const DType from : {DType::kBf16, DType::kFp16, DType::kInt8}) {
    for (const DType to : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      for (const int64_t numel : {128, 256, 640, 4224}) {
        const std::vector<float> values = spread_values(numel, 9, 4.0f);
        std::vector<uint8_t> stored(bytes_of(from, numel));
        if (from == DType::kInt8)
          StoredValues::in_int8(reinterpret_cast<Int8Block*>(stored.data()), numel)
              .write(0, values);
        else
          narrow(values.data(), numel, from, reinterpret_cast<char*>(stored.data()));
        std::vector<uint8_t> expected(numel * size_of(to));
        decode({from, to, stored.data(), expected.data(), numel}, threads);

        const GpuArray<uint8_t> apart(stored), alone(std::ssize(expected));
        queue_decode({from, to, apart.data(), alone.data(), numel}, nullptr);
        EXPECT_EQ(alone.read(), expected)
            << name_of(from) << " " << name_of(to) << " " << numel;

        std::vector<uint8_t> both(expected.size());
        std::ranges::copy(stored, both.end() - std::ssize(stored));
        const GpuArray<uint8_t> same(both);
        const void* const end = same.data() + both.size() - stored.size();
        queue_decode({from, to, end, same.data(), numel}, nullptr);
        EXPECT_EQ(same.read(), expected)
            << name_of(from) << " " << name_of(to) << " " << numel << ", in place";
      }
    }
  }
  EXPECT_NO_THROW(
      queue_decode({DType::kBf16, DType::kFp32, nullptr, nullptr, 0}, nullptr));
}

TEST(SumKernel, AddsLikeAHostThatAccumulates) {
  ThreadPool threads(1);
  for (const int64_t numel : kNumels) {
    const std::vector<float> left = spread_values(numel, 9, 1.0f),
                             right = spread_values(numel, 10, 1.0f);
    const std::vector<uint16_t> right_bf16 = rounded(right);
    std::vector<float> sum(numel), sum_bf16(numel), twice(numel);
    add_up({.left = left.data(), .right = right.data(), .sum = sum.data()}, 0, numel,
           threads);
    add_up({.left = sum.data(), .right = right.data(), .sum = twice.data()}, 0, numel,
           threads);
    add_up({.left = left.data(), .right_bf16 = right_bf16.data(), .sum = sum_bf16.data()},
           0, numel, threads);

    for (const int64_t offset : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << numel << " from " << offset);
      const GpuArray<float> gpu_left(left, offset), gpu_right(right), apart(numel);
      const GpuArray<uint16_t> gpu_bf16(right_bf16);
      queue_add(apart.data(), DType::kFp32, false, gpu_left.data(), gpu_right.data(),
                DType::kFp32, numel, nullptr);
      EXPECT_EQ(bits_of(apart.read()), bits_of(sum));
      EXPECT_EQ(bits_of(gpu_left.read()), bits_of(left));
      queue_add(gpu_left.data(), DType::kFp32, false, gpu_left.data(), gpu_bf16.data(),
                DType::kBf16, numel, nullptr);
      EXPECT_EQ(bits_of(gpu_left.read()), bits_of(sum_bf16));
      queue_add(gpu_right.data(), DType::kFp32, false, apart.data(), gpu_right.data(),
                DType::kFp32, numel, nullptr);
      EXPECT_EQ(bits_of(gpu_right.read()), bits_of(twice));
    }
  }
}

TEST(SumKernel, RoundsAndTakesNothingForZeros) {
  ThreadPool threads(1);
  for (const int64_t numel : kNumels) {
    std::vector<float> left = spread_values(numel, 21, 1.0f);
    left[0] = -0.0f;  // which a sum with zero would lose
    const std::vector<float> right = spread_values(numel, 22, 1.0f);
    const std::vector<uint16_t> right_bf16 = rounded(right);
    const GpuArray<float> gpu_left(left, 1), gpu_right(right);
    const GpuArray<uint16_t> gpu_bf16(right_bf16, 3);
    for (const bool has_left : {false, true}) {
      for (const int which_right : {0, 1, 2}) {  // none, fp32, bf16
        for (const bool rounds : {false, true}) {
          SCOPED_TRACE(::testing::Message() << numel << ": " << has_left << " "
                                            << which_right << " " << rounds);
          Addition addition{.left = has_left ? left.data() : nullptr,
                            .right = which_right == 1 ? right.data() : nullptr,
                            .right_bf16 = which_right == 2 ? right_bf16.data() : nullptr};
          std::vector<float> sum(numel);
          std::vector<uint16_t> sum_bf16(numel);
          addition.sum = sum.data();
          addition.rounds = rounds;
          add_up(addition, 0, numel, threads);
          addition.sum = nullptr;
          addition.sum_bf16 = sum_bf16.data();
          add_up(addition, 0, numel, threads);

          const void* const gpu_from = which_right == 0 ? nullptr
                                       : which_right == 1
                                           ? gpu_right.data()
                                           : static_cast<void*>(gpu_bf16.data());
          const DType type = which_right == 2 ? DType::kBf16 : DType::kFp32;
          const float* const from = has_left ? gpu_left.data() : nullptr;
          const GpuArray<float> to(numel);
          const GpuArray<uint16_t> to_bf16(numel, 1);
          queue_add(to.data(), DType::kFp32, rounds, from, gpu_from, type, numel,
                    nullptr);
          queue_add(to_bf16.data(), DType::kBf16, rounds, from, gpu_from, type, numel,
                    nullptr);
          EXPECT_EQ(bits_of(to.read()), bits_of(sum));
          EXPECT_EQ(to_bf16.read(), sum_bf16);
        }
      }
    }
  }
}

// --- AdamW

// How a shard keeps its arrays.
struct Kept {
  bool grad_in_bf16 = false;
  enum Master { kPlain, kWithCopy, kWithFp16, kSplit } master = kPlain;
  bool states_in_bf16 = false;
};

std::vector<Kept> all_ways() {
  std::vector<Kept> all;
  for (const bool grad : {false, true}) {
    for (const auto master :
         {Kept::kPlain, Kept::kWithCopy, Kept::kWithFp16, Kept::kSplit}) {
      for (const bool states : {false, true}) all.push_back({grad, master, states});
    }
  }
  return all;
}

// All arrays that a piece may have; which of them it has, it takes from `kept`.
template <template <class> class Array>
struct Arrays {
  Array<float> grad, master, exp_avg, exp_avg_sq;
  Array<uint16_t> grad_bf16, low, copy, exp_avg_bf16, exp_avg_sq_bf16;

  UpdatePiece piece(const Kept& kept, int64_t numel) {
    UpdatePiece piece{.numel = numel};
    if (kept.grad_in_bf16)
      piece.grad_bf16 = grad_bf16.data();
    else
      piece.grad = grad.data();
    if (kept.master == Kept::kSplit)
      piece.master_low = low.data();
    else
      piece.master = master.data();
    if (kept.master == Kept::kWithFp16)
      piece.copy_fp16 = copy.data();
    else if (kept.master != Kept::kPlain)
      piece.copy_bf16 = copy.data();
    if (kept.states_in_bf16) {
      piece.state_bf16[0] = exp_avg_bf16.data();
      piece.state_bf16[1] = exp_avg_sq_bf16.data();
    } else {
      piece.state[0] = exp_avg.data();
      piece.state[1] = exp_avg_sq.data();
    }
    return piece;
  }
};

template <class T>
using HostArray = std::vector<T>;

// Numbers of every size, and what is at the edges of AdamW's arithmetic.
Arrays<HostArray> numbers(int64_t numel) {
  Arrays<HostArray> all;
  all.grad = spread_values(numel, 12, 1.0f);
  all.master = uniform_values(numel, 13, 0.125f);
  all.exp_avg = spread_values(numel, 14, 0.125f);
  all.exp_avg_sq = spread_values(numel, 15, 0.125f);
  for (float& value : all.exp_avg_sq) value = std::fabs(value);
  const float edges[] = {0.0f,     1e20f, -1e20f,    1e-22f, NAN,
                         INFINITY, 1e38f, -INFINITY, -0.0f,  0x1p-149f};
  int64_t place = 0;
  for (const float edge : edges) {
    if ((place += 5) < numel) all.grad[place] = edge;
    if (place + 1 < numel) all.grad[place + 1] = all.exp_avg_sq[place + 1] = 0;
    if (place + 2 < numel) all.exp_avg_sq[place + 2] = std::fabs(edge);
  }
  all.grad_bf16 = rounded(all.grad);
  all.exp_avg_bf16 = rounded(all.exp_avg);
  all.exp_avg_sq_bf16 = rounded(all.exp_avg_sq);
  for (const float value : all.master) {
    const SplitFloat halves = split_float(value);
    all.copy.push_back(halves.high), all.low.push_back(halves.low);
  }
  return all;
}

Arrays<GpuArray> on_gpu(const Arrays<HostArray>& host, int64_t offset) {
  const auto copy = [&](const auto& values) { return GpuArray(values, offset); };
  return {copy(host.grad),       copy(host.master),       copy(host.exp_avg),
          copy(host.exp_avg_sq), copy(host.grad_bf16),    copy(host.low),
          copy(host.copy),       copy(host.exp_avg_bf16), copy(host.exp_avg_sq_bf16)};
}

void expect_same(const Arrays<GpuArray>& found, const Arrays<HostArray>& expected) {
  EXPECT_EQ(bits_of(found.grad.read()), bits_of(expected.grad));
  EXPECT_EQ(bits_of(found.master.read()), bits_of(expected.master));
  EXPECT_EQ(bits_of(found.exp_avg.read()), bits_of(expected.exp_avg));
  EXPECT_EQ(bits_of(found.exp_avg_sq.read()), bits_of(expected.exp_avg_sq));
  EXPECT_EQ(found.low.read(), expected.low);
  EXPECT_EQ(found.copy.read(), expected.copy);
  EXPECT_EQ(found.exp_avg_bf16.read(), expected.exp_avg_bf16);
  EXPECT_EQ(found.exp_avg_sq_bf16.read(), expected.exp_avg_sq_bf16);
}

AdamWRule adamw(double eps, int64_t step) {
  return std::get<AdamWRule>(make_rule({.eps = eps}, 1e-3, step, 0.3f));
}

TEST(AdamWKernel, StepsLikeTheHostWithAnyInstructions) {
  for (const Kept& kept : all_ways()) {
    for (const int64_t numel : kNumels) {
      for (const Kernels& kernel : kernels()) {
        const int64_t offset = numel % 3;
        SCOPED_TRACE(::testing::Message()
                     << kernel.isa << ", " << numel << " in bf16: gradient "
                     << kept.grad_in_bf16 << ", states " << kept.states_in_bf16
                     << "; master " << kept.master);
        Arrays<HostArray> host = numbers(numel);
        Arrays<GpuArray> gpu = on_gpu(host, offset);
        for (const int64_t step : {1, 2, 1000}) {
          const AdamWRule rule = adamw(step == 2 ? 0 : 1e-8, step);
          kernel.update(host.piece(kept, numel), rule);
          queue_adamw(gpu.piece(kept, numel), rule, nullptr);
        }
        expect_same(gpu, host);
      }
    }
  }
}

TEST(AdamWKernel, APartOfAPieceIsAPiece) {
  const Kept kept{.master = Kept::kWithCopy};
  Arrays<HostArray> host = numbers(1000);
  Arrays<GpuArray> gpu = on_gpu(host, 0);
  const UpdatePiece whole = gpu.piece(kept, 1000);
  queue_adamw(part_of(whole, 0, 321), adamw(1e-8, 1), nullptr);
  queue_adamw(part_of(whole, 321, 321), adamw(1e-8, 1), nullptr);
  queue_adamw(part_of(whole, 321, 1000), adamw(1e-8, 1), nullptr);
  ThreadPool threads(1);
  const Update update{host.piece(kept, 1000), adamw(1e-8, 1)};
  zero::update({&update, 1}, threads);
  expect_same(gpu, host);
}

TEST(AdamWKernel, SeesMovementsLikeTheHost) {
  ThreadPool threads(1);
  for (const Kept& kept : all_ways()) {
    for (const int64_t numel : {1, 5, 1023, 4099}) {
      for (const double lr : {0.0, 1e-2}) {
        for (const float last : {0.0f, 1.0f}) {
          Arrays<HostArray> host = numbers(numel);
          std::ranges::fill(host.grad, 0.0f), std::ranges::fill(host.grad_bf16, 0);
          std::ranges::fill(host.exp_avg, 0.0f), std::ranges::fill(host.exp_avg_bf16, 0);
          host.grad.back() = last;
          host.grad_bf16.back() = float_to_bf16(last);
          Arrays<GpuArray> gpu = on_gpu(host, numel % 3);
          Movement of_host;
          const GpuArray<Movement> of_gpu(std::vector<Movement>(1));
          const AdamWRule rule = std::get<AdamWRule>(make_rule({.eps = 1e-8}, lr, 1, 1));
          Update update{host.piece(kept, numel), rule};
          update.piece.movement = &of_host;
          zero::update({&update, 1}, threads);
          UpdatePiece piece = gpu.piece(kept, numel);
          piece.movement = of_gpu.data();
          queue_adamw(piece, rule, nullptr);
          EXPECT_EQ(of_gpu.read()[0], of_host) << numel << " " << lr << " " << last;
          EXPECT_EQ(of_host.had_gradient, last != 0);
          expect_same(gpu, host);
        }
      }
    }
  }
}

TEST(AdamWKernel, AWrongPieceIsRefused) {
  Arrays<HostArray> host = numbers(5);
  Arrays<GpuArray> gpu = on_gpu(host, 0);
  UpdatePiece piece = gpu.piece({}, 5);
  piece.state[1] = nullptr;
  EXPECT_THROW(queue_adamw(piece, adamw(1e-8, 1), nullptr), std::invalid_argument);
  piece = gpu.piece({}, 5);
  piece.grad_bf16 = gpu.grad_bf16.data();
  EXPECT_THROW(queue_adamw(piece, adamw(1e-8, 1), nullptr), std::invalid_argument);
  expect_same(gpu, host);
}

// --- norms

std::vector<int64_t> limbs_of(ExactSum sum) {
  return {sum.limbs().begin(), sum.limbs().end()};
}

// What an engine does with limbs that come from a GPU.
std::vector<int64_t> limbs_of(const GpuArray<int64_t>& gpu) {
  ExactSum sum;
  const std::vector<int64_t> found = gpu.read();
  for (size_t i = 0; i < found.size(); ++i) sum.limbs()[i] += found[i];
  return limbs_of(sum);
}

GpuArray<int64_t> no_limbs() {
  return GpuArray<int64_t>(std::vector<int64_t>(ExactSum::kNumLimbs));
}

// On both sides of all that blocks of a GPU may be.
const std::vector<int64_t> kNormNumels = {1,   63,   64,   65,   100,
                                          128, 8191, 8192, 8193, 300000 + 7};

TEST(NormKernels, AddUpLikeTheHost) {
  for (const int64_t numel : kNormNumels) {
    for (int64_t offset = 0; offset < 3; ++offset) {
      SCOPED_TRACE(::testing::Message() << numel << " from " << offset);
      const std::vector<float> values = spread_values(numel, 16, 1024.0f);
      const std::vector<uint16_t> halves = rounded(values);
      std::vector<float> widened;
      for (const uint16_t half : halves) widened.push_back(bf16_to_float(half));
      ExactSum squares, magnitudes;
      add_squares(squares, values.data(), numel);
      add_squares(squares, widened.data(), numel);
      add_abs(magnitudes, values.data(), numel);
      add_abs(magnitudes, widened.data(), numel);

      const GpuArray<float> gpu(values, offset);
      const GpuArray<uint16_t> gpu_bf16(halves, offset);
      const GpuArray<int64_t> gpu_squares = no_limbs(), gpu_magnitudes = no_limbs();
      queue_leaf_sums(gpu_squares.data(), gpu.data(), DType::kFp32, NormType::kL2, numel,
                      nullptr);
      queue_leaf_sums(gpu_squares.data(), gpu_bf16.data(), DType::kBf16, NormType::kL2,
                      numel, nullptr);
      queue_leaf_sums(gpu_magnitudes.data(), gpu.data(), DType::kFp32, NormType::kL1,
                      numel, nullptr);
      queue_leaf_sums(gpu_magnitudes.data(), gpu_bf16.data(), DType::kBf16, NormType::kL1,
                      numel, nullptr);
      EXPECT_EQ(limbs_of(gpu_squares), limbs_of(squares));
      EXPECT_EQ(limbs_of(gpu_magnitudes), limbs_of(magnitudes));
    }
  }
}

TEST(NormKernels, SeeWhatIsNotFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values = spread_values(1000, 17, 1.0f);
    values[999] = bad;
    const GpuArray<float> gpu(values);
    const GpuArray<int64_t> squares = no_limbs();
    ExactSum expected;
    add_squares(expected, values.data(), 1000);
    queue_leaf_sums(squares.data(), gpu.data(), DType::kFp32, NormType::kL2, 1000,
                    nullptr);
    EXPECT_EQ(limbs_of(squares), limbs_of(expected));
    EXPECT_FALSE(expected.finite());
  }
}

TEST(NormKernels, LoseNothingSmallOrLarge) {
  std::vector<float> values(64 * 7);
  values[0] = 0x1p-149f, values[64] = 0x1.fffffep127f, values[128] = 1.0f;
  values[192] = 0x1p-75f, values[320] = 0x1p64f;
  const GpuArray<float> gpu(values);
  const GpuArray<int64_t> squares = no_limbs();
  ExactSum expected;
  add_squares(expected, values.data(), std::ssize(values));
  queue_leaf_sums(squares.data(), gpu.data(), DType::kFp32, NormType::kL2,
                  std::ssize(values), nullptr);
  EXPECT_EQ(limbs_of(squares), limbs_of(expected));
  EXPECT_NE(limbs_of(squares)[1], 0);  // 2^-298 is still there
}

TEST(NormKernels, FindTheLargestMagnitude) {
  for (const int64_t numel : kNormNumels) {
    for (const int64_t place : {int64_t{0}, numel / 2, numel - 1}) {
      std::vector<float> values = uniform_values(numel, 18, 1.0f);
      const GpuArray<float> largest(std::vector<float>{0.0f});
      for (const float top : {-2.0f, -INFINITY, NAN}) {
        SCOPED_TRACE(::testing::Message() << top << " at " << place << " of " << numel);
        values[place] = top;
        const GpuArray<float> gpu(values, numel % 2);
        const GpuArray<uint16_t> gpu_bf16(rounded(values));
        queue_max_abs(largest.data(), gpu.data(), DType::kFp32, numel, nullptr);
        EXPECT_EQ(bits_of(largest.read()), bits_of({max_abs(values.data(), numel)}));
        const GpuArray<float> of_bf16(std::vector<float>{0.0f});
        queue_max_abs(of_bf16.data(), gpu_bf16.data(), DType::kBf16, numel, nullptr);
        EXPECT_EQ(bits_of(of_bf16.read()), bits_of({std::fabs(top)}));
      }
      values.assign(numel, 1.0f);  // a smaller one changes nothing
      const GpuArray<float> gpu(values);
      queue_max_abs(largest.data(), gpu.data(), DType::kFp32, numel, nullptr);
      EXPECT_TRUE(std::isnan(largest.read()[0]));
    }
  }
}

// --- hashes

TEST(HashKernel, TellsEveryBitAndPlace) {
  for (const int64_t numel : kNumels) {
    std::vector<uint16_t> values = rounded(uniform_values(numel, 21, 1.0f));
    const auto hash = [&] {
      const GpuArray<uint16_t> gpu(values);
      const GpuArray<uint64_t> sum(std::vector<uint64_t>{0});
      queue_hash(sum.data(), gpu.data(), numel * 2, nullptr);
      return sum.read()[0];
    };
    const uint64_t before = hash();
    EXPECT_EQ(hash(), before);
    for (const int64_t place : {int64_t{0}, numel / 2, numel - 1}) {
      values[place] ^= 1;
      EXPECT_NE(hash(), before) << place << " of " << numel;
      values[place] ^= 1;
    }
    if (numel < 2) continue;
    values[0] = 1, values[numel - 1] = 2;
    const uint64_t in_order = hash();
    std::swap(values[0], values[numel - 1]);
    EXPECT_NE(hash(), in_order) << numel;
  }
}

// --- streams

TEST(KernelsInAStream, RunOneAfterTheOther) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a test");
  const int64_t numel = 5000;
  const std::vector<float> values = spread_values(numel, 19, 1.0f);
  const GpuArray<float> from(values), sum(numel);
  const GpuArray<uint16_t> to(numel);
  queue_cast(to.data(), DType::kBf16, from.data(), DType::kFp32, numel, stream);
  queue_add(sum.data(), DType::kFp32, false, from.data(), to.data(), DType::kBf16, numel,
            stream);
  queue_add(sum.data(), DType::kFp32, false, sum.data(), from.data(), DType::kFp32, numel,
            stream);
  queue_cast(to.data(), DType::kBf16, sum.data(), DType::kFp32, numel, stream);
  std::vector<float> expected;
  for (const float value : values)
    expected.push_back(value + bf16_to_float(float_to_bf16(value)) + value);
  EXPECT_EQ(to.read(stream), rounded(expected));
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace zero::testing

// The kernels of layers against the host's passes, bit by bit: linked with a GPU made of
// threads (tests/standin), and with a real one (tests/gpu).
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "engine/layers/gpu_passes.h"
#include "engine/layers/kernels.h"
#include "tests/engine/kernels_suite.h"

namespace zero::testing::layer_kernels_suite {
namespace {

// Bits of an element, which GpuArray compares.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, T>;

template <class T>
using Values = std::vector<Bits<T>>;

template <class T>
Values<T> some_values(int64_t numel, double phase) {
  Values<T> values(numel);
  for (int64_t i = 0; i < numel; ++i) {
    T element;
    put(static_cast<float>(3 * std::sin(phase + 1.7 * static_cast<double>(i))), element);
    std::memcpy(&values[i], &element, sizeof element);
  }
  return values;
}

// An array that a pass reads or writes, on the host and on the GPU.
template <class T>
class Both {
 public:
  Both(const Values<T>& values, int64_t offset) : host_(values), gpu_(values, offset) {}

  T* host() { return reinterpret_cast<T*>(host_.data()); }
  T* gpu() { return reinterpret_cast<T*>(gpu_.data()); }
  void expect_same(const char* what) {
    const Values<T> found = gpu_.read();
    EXPECT_EQ(0, std::memcmp(found.data(), host_.data(), found.size() * sizeof(T)))
        << what;
  }

 private:
  Values<T> host_;
  GpuArray<Bits<T>> gpu_;
};

template <class T>
class LayerKernels : public ::testing::Test {
 protected:
  static Both<T> read(int64_t numel, double phase, int64_t offset = 0) {
    return {some_values<T>(numel, phase), offset};
  }
  static Both<T> written(int64_t numel, int64_t offset = 0) {
    return {Values<T>(numel), offset};
  }
  static Both<float> wide(int64_t numel, double phase) {
    return {some_values<float>(numel, phase), 0};
  }
  // The same pass over `numel` items here and there.
  template <class Pass>
  static void run(const Pass& host, const Pass& gpu, int64_t numel) {
    baseline_layer_kernels().run(host, 0, numel);
    zero_gpu_passes()->queue(gpu, numel, nullptr);
  }
};

using Elements = ::testing::Types<float, Bf16, Fp16>;
TYPED_TEST_SUITE(LayerKernels, Elements);

// Rows shorter than a warp, odd ones, some of a span and a bit, and more spans than a
// block has warps; begun at a boundary and behind it.
struct Rows {
  int64_t rows, dim, offset;
};
const std::vector<Rows> kRows = {{3, 1, 0},     {5, 7, 0},     {33, 40, 0},  {2, 64, 1},
                                 {2, 1024, 0},  {2, 1031, 0},  {1, 3072, 0}, {70, 136, 0},
                                 {1, 17000, 0}, {1, 17001, 0}, {32, 24, 3}};

TYPED_TEST(LayerKernels, Norms) {
  for (const auto& [rows, dim, offset] : kRows) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << dim << " from " << offset);
    auto x = this->read(rows * dim, 0.1, offset), weight = this->read(dim, 0.3);
    auto y = this->written(rows * dim), alone = this->written(rows * dim);
    auto scales = this->wide(rows, 0);
    const RmsNormPass<TypeParam> host{x.host(),      weight.host(), y.host(),
                                      scales.host(), dim,           1e-5f};
    this->run(host, {x.gpu(), weight.gpu(), y.gpu(), scales.gpu(), dim, 1e-5f}, rows);
    y.expect_same("y"), scales.expect_same("scales");
    this->run(
        {x.host(), weight.host(), alone.host(), nullptr, dim, 1e-5f},
        RmsNormPass<TypeParam>{x.gpu(), weight.gpu(), alone.gpu(), nullptr, dim, 1e-5f},
        rows);
    alone.expect_same("y without scales");
  }
}

TYPED_TEST(LayerKernels, GradientsOfNorms) {
  using T = TypeParam;
  for (const auto& [rows, dim, offset] : kRows) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << dim << " from " << offset);
    const int64_t blocks = (rows + kRowsOfSum - 1) / kRowsOfSum;
    auto x = this->read(rows * dim, 0.1), grad = this->read(rows * dim, 0.2, offset);
    auto weight = this->read(dim, 0.3);
    auto scales = this->wide(rows, 0.7), sums = this->wide(blocks * dim, 0);
    auto x_grad = this->written(rows * dim), weight_grad = this->written(dim);
    const RmsNormBackwardPass<T> host{
        x.host(),      weight.host(), grad.host(), scales.host(),
        x_grad.host(), sums.host(),   rows,        dim};
    const RmsNormBackwardPass<T> gpu{x.gpu(),      weight.gpu(), grad.gpu(), scales.gpu(),
                                     x_grad.gpu(), sums.gpu(),   rows,       dim};
    this->run(host, gpu, blocks);
    x_grad.expect_same("x"), sums.expect_same("sums");
    this->run(SumBlocksPass<T>{sums.host(), weight_grad.host(), blocks, dim},
              {sums.gpu(), weight_grad.gpu(), blocks, dim},
              (dim + kColumnsOfTile - 1) / kColumnsOfTile);
    weight_grad.expect_same("weight");
  }
}

TYPED_TEST(LayerKernels, NormsOfSumsAndTheirGradients) {
  using T = TypeParam;
  for (const auto& [rows, dim, offset] : kRows) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << dim << " from " << offset);
    const int64_t blocks = (rows + kRowsOfSum - 1) / kRowsOfSum;
    auto x = this->read(rows * dim, 0.1), weight = this->read(dim, 0.3);
    auto added = this->read(rows * dim, 0.2, offset);
    auto y = this->written(rows * dim), total = this->written(rows * dim, offset);
    this->run(
        RmsNormPass<T>{x.host(), weight.host(), y.host(), nullptr, dim, 1e-5f,
                       added.host(), total.host()},
        {x.gpu(), weight.gpu(), y.gpu(), nullptr, dim, 1e-5f, added.gpu(), total.gpu()},
        rows);
    y.expect_same("y"), total.expect_same("total");
    auto scales = this->wide(rows, 0.7);
    auto x_grad = this->written(rows * dim);
    this->run(RmsNormBackwardPass<T>{x.host(), weight.host(), x.host(), scales.host(),
                                     x_grad.host(), nullptr, rows, dim, added.host()},
              {x.gpu(), weight.gpu(), x.gpu(), scales.gpu(), x_grad.gpu(), nullptr, rows,
               dim, added.gpu()},
              blocks);
    x_grad.expect_same("x");
  }
}

TYPED_TEST(LayerKernels, GradientsOfNormsThatAreNotAllNeeded) {
  using T = TypeParam;
  auto x = this->read(33 * 40, 0.1), grad = this->read(33 * 40, 0.2);
  auto weight = this->read(40, 0.3), x_grad = this->written(33 * 40);
  auto scales = this->wide(33, 0.7), sums = this->wide(2 * 40, 0);
  RmsNormBackwardPass<T> host{x.host(), weight.host(), grad.host(), scales.host(),
                              nullptr,  sums.host(),   33,          40};
  RmsNormBackwardPass<T> gpu{x.gpu(), weight.gpu(), grad.gpu(), scales.gpu(),
                             nullptr, sums.gpu(),   33,         40};
  this->run(host, gpu, 2);
  sums.expect_same("sums");
  host.sums = gpu.sums = nullptr;
  host.x_grad = x_grad.host(), gpu.x_grad = x_grad.gpu();
  this->run(host, gpu, 2);
  x_grad.expect_same("x");
}

TYPED_TEST(LayerKernels, SumsOfManyBlocks) {
  for (const int64_t blocks : {1, 15, 16, 17, 100}) {
    auto sums = this->wide(blocks * 70, 0.5);
    auto sum = this->written(70);
    this->run(SumBlocksPass<TypeParam>{sums.host(), sum.host(), blocks, 70},
              {sums.gpu(), sum.gpu(), blocks, 70}, 2);
    sum.expect_same("sum");
  }
}

TYPED_TEST(LayerKernels, Gates) {
  using T = TypeParam;
  for (const int64_t numel : {1, 7, 8, 9, 2048, 2055, 5000}) {
    for (const int64_t offset : {0, 1, 8}) {
      SCOPED_TRACE(::testing::Message() << numel << " from " << offset);
      auto gate = this->read(numel, 0.1, offset), up = this->read(numel, 0.2);
      auto grad = this->read(numel, 0.4), y = this->written(numel);
      auto gate_grad = this->written(numel), up_grad = this->written(numel, offset);
      this->run(SwiGluPass<T>{gate.host(), up.host(), y.host()},
                {gate.gpu(), up.gpu(), y.gpu()}, numel);
      y.expect_same("y");
      const SwiGluBackwardPass<T> host{grad.host(), gate.host(), up.host(),
                                       gate_grad.host(), up_grad.host()};
      this->run(host, {grad.gpu(), gate.gpu(), up.gpu(), gate_grad.gpu(), up_grad.gpu()},
                numel);
      gate_grad.expect_same("gate"), up_grad.expect_same("up");
    }
  }
}

TYPED_TEST(LayerKernels, Gelus) {
  using T = TypeParam;
  for (const int64_t numel : {1, 7, 8, 9, 2048, 2055, 5000}) {
    for (const int64_t offset : {0, 1, 8}) {
      SCOPED_TRACE(::testing::Message() << numel << " from " << offset);
      auto x = this->read(numel, 0.1, offset), grad = this->read(numel, 0.4);
      auto y = this->written(numel), x_grad = this->written(numel, offset);
      this->run(GeluPass<T>{x.host(), y.host()}, {x.gpu(), y.gpu()}, numel);
      y.expect_same("y");
      this->run(GeluBackwardPass<T>{grad.host(), x.host(), x_grad.host()},
                {grad.gpu(), x.gpu(), x_grad.gpu()}, numel);
      x_grad.expect_same("x");
    }
  }
}

// Classes; with `ignores`, every third is none.
Values<int64_t> some_targets(int64_t rows, int64_t classes, bool ignores) {
  Values<int64_t> targets(rows);
  for (int64_t row = 0; row < rows; ++row)
    targets[row] = ignores && row % 3 == 2 ? -1 : classes - 1 - 7 * row % classes;
  return targets;
}

TYPED_TEST(LayerKernels, Losses) {
  using T = TypeParam;
  for (const auto& [rows, classes, offset] : kRows) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << classes << " from " << offset);
    auto logits = this->read(rows * classes, 0.1, offset);
    Both<int64_t> some(some_targets(rows, classes, true), 0),
        all(some_targets(rows, classes, false), 0);
    Both<double> alone(Values<double>(rows), 0), losses(Values<double>(rows), 0);
    this->run(
        CrossEntropyPass<T>{logits.host(), some.host(), alone.host(), nullptr, classes},
        {logits.gpu(), some.gpu(), alone.gpu(), nullptr, classes}, rows);
    alone.expect_same("losses alone");
    // Rows that are ignored keep nothing.
    Both<float> kept(Values<float>(rows * kNumbersOfRow), 0), factor({1.f / 3}, 0);
    this->run(CrossEntropyPass<T>{logits.host(), all.host(), losses.host(), kept.host(),
                                  classes},
              {logits.gpu(), all.gpu(), losses.gpu(), kept.gpu(), classes}, rows);
    losses.expect_same("losses"), kept.expect_same("what is kept");
    this->run(CrossEntropyBackwardPass<T>{logits.host(), some.host(), kept.host(),
                                          factor.host(), classes},
              {logits.gpu(), some.gpu(), kept.gpu(), factor.gpu(), classes}, rows);
    logits.expect_same("gradients");
  }
}

TYPED_TEST(LayerKernels, LossesBesideZerosOfBothSigns) {
  Values<TypeParam> values(64);
  const auto set = [&](int64_t i, float value) {
    TypeParam element;
    put(value, element);
    std::memcpy(&values[i], &element, sizeof element);
  };
  for (int64_t i = 0; i < 64; ++i) set(i, -1);
  set(1, -0.f), set(32, 0);
  Both<TypeParam> logits(values, 0);
  Both<int64_t> targets({1}, 0);
  Both<double> losses({0}, 0);
  Both<float> kept(Values<float>(kNumbersOfRow), 0);
  this->run({logits.host(), targets.host(), losses.host(), kept.host(), 64},
            CrossEntropyPass<TypeParam>{logits.gpu(), targets.gpu(), losses.gpu(),
                                        kept.gpu(), 64},
            1);
  losses.expect_same("losses"), kept.expect_same("what is kept");
}

TEST(SumsOfLosses, HaveTheHostsBits) {
  for (const int64_t rows : {1, 3, 128, 255, 256, 257, 5000}) {
    SCOPED_TRACE(rows);
    Values<double> losses(rows);
    for (int64_t row = 0; row < rows; ++row)
      losses[row] = 3 + std::sin(static_cast<double>(row));
    Both<double> given(losses, 0), sum({0}, 0);
    baseline_layer_kernels().run(SumLossesPass{given.host(), sum.host(), rows}, 0, 1);
    zero_gpu_passes()->queue(SumLossesPass{given.gpu(), sum.gpu(), rows}, 1, nullptr);
    sum.expect_same("sum");
  }
}

struct Heads {
  int64_t heads, dim, half;
  int64_t gap = 0, y_gap = 0;  // behind each head of x, and of y
  int64_t offset = 0;          // of x
};

// Two samples at 3 positions, which lie position by position in x and head by head in y.
template <class T, Pairs kPairs>
void expect_same_rotation(const Heads& of, int64_t num_angles = 3) {
  const auto& [heads, dim, half, gap, y_gap, offset] = of;
  SCOPED_TRACE(::testing::Message()
               << heads << " heads of " << dim << " and " << gap << " to " << y_gap
               << ", " << half << " turned, from " << offset);
  const int64_t far = dim + gap, y_far = dim + y_gap;
  Both<T> x(some_values<T>(6 * heads * far, 0.1), offset);
  Both<T> y(Values<T>(6 * heads * y_far), 0);
  Both<T> cos(some_values<T>(num_angles * half, 0.4), 0),
      sin(some_values<T>(num_angles * half, 0.5), 0);
  RotatePass<T, kPairs> host{.x = x.host(),
                             .cos = cos.host(),
                             .sin = sin.host(),
                             .y = y.host(),
                             .from = {3 * heads * far, far, heads * far},
                             .to = {3 * heads * y_far, 3 * y_far, y_far},
                             .num_heads = heads,
                             .length = 3,
                             .dim = dim,
                             .half = half,
                             .num_angles = num_angles,
                             .direction = -1,
                             .opposite = 1};
  RotatePass<T, kPairs> gpu = host;
  gpu.x = x.gpu(), gpu.cos = cos.gpu(), gpu.sin = sin.gpu(), gpu.y = y.gpu();
  baseline_layer_kernels().run(host, 0, 6);
  zero_gpu_passes()->queue(gpu, 6, nullptr);
  y.expect_same("y");
}

const Heads kHeads[] = {{1, 2, 1},         {5, 16, 8},        {40, 64, 32},
                        {5, 48, 16},       {3, 75, 37},       {5, 40, 20},
                        {5, 44, 16, 4, 4}, {5, 64, 32, 8},    {2, 40, 4},
                        {8, 64, 32, 3},    {5, 64, 32, 0, 3}, {5, 64, 32, 0, 0, 1}};

TYPED_TEST(LayerKernels, RotationsOfHalves) {
  for (const Heads& of : kHeads) expect_same_rotation<TypeParam, Pairs::kHalves>(of);
}
TYPED_TEST(LayerKernels, RotationsOfNeighbours) {
  for (const Heads& of : kHeads) expect_same_rotation<TypeParam, Pairs::kNeighbours>(of);
}

TYPED_TEST(LayerKernels, RotationsOfRowsWithPositionsOfTheirOwn) {
  expect_same_rotation<TypeParam, Pairs::kHalves>({8, 64, 32}, 6);
  expect_same_rotation<TypeParam, Pairs::kNeighbours>({5, 64, 32, 3}, 6);
}

TYPED_TEST(LayerKernels, NothingIsQueuedForNothing) {
  zero_gpu_passes()->queue(SwiGluPass<TypeParam>{}, 0, nullptr);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

}  // namespace
}  // namespace zero::testing::layer_kernels_suite

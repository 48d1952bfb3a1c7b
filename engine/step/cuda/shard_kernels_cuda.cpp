#include <array>
#include <variant>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/kernels.h"
#include "engine/plan/memory_plan.h"
#include "engine/step/shard_kernels.h"

namespace zero {
namespace {

// A CUDA stream whose GPU the calling thread means from now on.
cudaStream_t use(Stream& stream) {
  CudaStream& cuda = as_cuda_stream(stream);
  cuda.shared_context()->use();
  return cuda.handle();
}

// Where a norm is added up.
struct alignas(kGpuNormBytes) NormSum {
  std::array<int64_t, ExactSum::kNumLimbs> limbs;
  float largest;
};
static_assert(sizeof(NormSum) == kGpuNormBytes);
static_assert(sizeof(Movement) == kMovementBytes);

class CudaShardKernels final : public ShardKernels {
 public:
  CudaShardKernels(Device& gpu, NormType norm, int64_t num_movements)
      : gpu_(gpu),
        type_(norm),
        sum_(static_cast<NormSum*>(gpu.allocate("gradient norm", kGpuNormBytes))),
        num_movements_(num_movements) {
    gpu.compute_stream().set_bytes(sum_, 0, kGpuNormBytes);
    if (num_movements > 0) {
      const int64_t bytes = num_movements * kMovementBytes;
      movements_ = static_cast<Movement*>(gpu.allocate("movement", bytes));
      gpu.compute_stream().set_bytes(movements_, 0, bytes);
    }
    gpu.compute_stream().synchronize();
  }
  ~CudaShardKernels() override {
    if (movements_) gpu_.free(movements_);
    gpu_.free(sum_);
  }

  void add_up(const Addition& all, int64_t numel, Stream& stream) override {
    cudaStream_t const cuda = use(stream);
    const bool is_plain = all.sum != nullptr;
    void* const sum = is_plain ? static_cast<void*>(all.sum) : all.sum_bf16;
    const DType type = is_plain ? DType::kFp32 : DType::kBf16;
    const bool has_bf16 = all.right_bf16 != nullptr;
    queue_add(sum, type, all.rounds, all.left,
              has_bf16 ? static_cast<const void*>(all.right_bf16) : all.right,
              has_bf16 ? DType::kBf16 : DType::kFp32, numel, cuda);
    if (all.norm) add_to_norm(sum, type, numel, stream);
  }

  void add_to_norm(const void* values, DType type, int64_t numel,
                   Stream& stream) override {
    cudaStream_t const cuda = use(stream);
    if (type_ == NormType::kInf)
      queue_max_abs(&sum_->largest, values, type, numel, cuda);
    else
      queue_leaf_sums(sum_->limbs.data(), values, type, type_, numel, cuda);
  }

  GradientNorm take_norm(Stream& stream) override {
    NormSum sum;
    stream.copy(&sum, sum_, sizeof sum);
    stream.set_bytes(sum_, 0, kGpuNormBytes);
    stream.synchronize();
    GradientNorm norm(type_);
    norm.merge(sum.limbs, sum.largest);
    return norm;
  }

  void update(std::span<const Update> updates, Stream& stream) override {
    cudaStream_t const cuda = use(stream);
    for (const Update& update : updates) {
      const auto* const rule = std::get_if<AdamWRule>(&update.rule);
      if (!rule) throw std::invalid_argument("a GPU steps with AdamW alone");
      queue_adamw(update.piece, *rule, cuda);
    }
  }

  Movement* movement(int param) override { return movements_ + param; }

  std::vector<Movement> read_movements(Stream& stream) override {
    std::vector<Movement> all(num_movements_);
    if (!all.empty())
      stream.copy(all.data(), movements_, num_movements_ * kMovementBytes);
    stream.synchronize();
    return all;
  }

  void round(uint16_t* copy, DType type, const float* values, int64_t numel,
             Stream& stream) override {
    queue_cast(copy, type, values, DType::kFp32, numel, use(stream));
  }

 private:
  Device& gpu_;
  const NormType type_;
  NormSum* const sum_;  // in the GPU's memory
  const int64_t num_movements_;
  Movement* movements_ = nullptr;  // there, too, of each parameter; or null
};

}  // namespace
}  // namespace zero

zero::ShardKernels* zero_make_shard_kernels(zero::Device& gpu, zero::NormType norm,
                                            int64_t num_movements) {
  return new zero::CudaShardKernels(gpu, norm, num_movements);
}

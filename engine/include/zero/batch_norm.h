#pragma once
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace zero {

class BatchNormRanks;

// What batch norms of any number of dimensions have in common: torch's names, options and
// buffers. An engine finds them by this class.
class BatchNormBase {
 public:
  virtual ~BatchNormBase() = default;

  void reset_running_stats();
  void reset_parameters();

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias;                // (features), if options.affine()
  at::Tensor running_mean, running_var;   // (features), if options.track_running_stats()
  at::Tensor num_batches_tracked;         // int64, a scalar; as those
  std::shared_ptr<BatchNormRanks> ranks;  // an engine's, while it synchronises this one

 protected:
  explicit BatchNormBase(const torch::nn::BatchNormOptions& of) : options(of) {}
  // A copy belongs to no engine, and what is assigned to stays where it belongs.
  BatchNormBase(const BatchNormBase& other) : BatchNormBase(other.options) {
    *this = other;
  }
  BatchNormBase& operator=(const BatchNormBase& other);

  // x: (N, features, ...). Throws Error(kUsage) for other numbers of dimensions.
  at::Tensor run(const at::Tensor& x, bool is_training, int64_t least_dims,
                 int64_t most_dims);
  std::string description(int64_t dims) const;

 private:
  // One batch more; returns its share of the running statistics.
  double count_batch();
  at::Tensor run_synced(const at::Tensor& x);
};

// Normalise each feature of a batch, as torch::nn::BatchNorm1d, 2d and 3d do.
//
// With Options::sync_batch_norm, while training on several ranks, the batch is that of
// all ranks: mean and variance are those of all its values, however many each rank has,
// and so are the running statistics and the gradients of inputs. Each forward is an
// exchange among ranks, and so is its backward: all ranks call it alike. Statistics are
// fp32 or better; results are of the input's type. There are first derivatives only.
//
// Without an engine, on one rank, in eval() and without the option: torch's numbers, bit
// for bit.
template <size_t D, class Derived>
class BatchNormImpl : public torch::nn::Cloneable<Derived>, public BatchNormBase {
 public:
  /* implicit */ BatchNormImpl(const torch::nn::BatchNormOptions& options)
      : BatchNormBase(options) {
    BatchNormImpl::reset();
  }
  // With the tensors, options and mode of torch's: both share them.
  template <class Torch>
  explicit BatchNormImpl(
      const torch::nn::NormImplBase<D, Torch, torch::nn::BatchNormOptions>& other)
      : BatchNormBase(other.options) {
    add(other.weight, other.bias, other.running_mean, other.running_var,
        other.num_batches_tracked);
    this->train(other.is_training());
  }

  void reset() override {
    const auto of = [&](bool is_there, bool is_trained) {
      return is_there ? torch::empty({options.num_features()},
                                     at::TensorOptions().requires_grad(is_trained))
                      : at::Tensor();
    };
    const bool is_affine = options.affine(), tracks = options.track_running_stats();
    add(of(is_affine, true), of(is_affine, true), of(tracks, false), of(tracks, false),
        tracks ? torch::zeros({}, at::kLong) : at::Tensor());
    reset_parameters();
  }

  at::Tensor forward(const at::Tensor& x) {
    return run(x, this->is_training(), D == 1 ? 2 : D + 2, D + 2);
  }

  void pretty_print(std::ostream& stream) const override { stream << description(D); }

 private:
  void add(const at::Tensor& of_weight, const at::Tensor& of_bias, const at::Tensor& mean,
           const at::Tensor& var, const at::Tensor& count) {
    const auto add_param = [&](const char* name, const at::Tensor& tensor) {
      return this->register_parameter(name, tensor,
                                      tensor.defined() && tensor.requires_grad());
    };
    weight = add_param("weight", of_weight);
    bias = add_param("bias", of_bias);
    running_mean = this->register_buffer("running_mean", mean);
    running_var = this->register_buffer("running_var", var);
    num_batches_tracked = this->register_buffer("num_batches_tracked", count);
  }
};

class BatchNorm1dImpl : public BatchNormImpl<1, BatchNorm1dImpl> {  // (N, C), (N, C, L)
  using BatchNormImpl::BatchNormImpl;
};
class BatchNorm2dImpl : public BatchNormImpl<2, BatchNorm2dImpl> {  // (N, C, H, W)
  using BatchNormImpl::BatchNormImpl;
};
class BatchNorm3dImpl : public BatchNormImpl<3, BatchNorm3dImpl> {  // (N, C, D, H, W)
  using BatchNormImpl::BatchNormImpl;
};
TORCH_MODULE(BatchNorm1d);
TORCH_MODULE(BatchNorm2d);
TORCH_MODULE(BatchNorm3d);

// What to do about batch norms that cannot be replaced: throw, or only name them.
enum class Unreached { kRefuse, kList };

// Replace torch's batch norms by zero's wherever they are entries of a
// torch::nn::Sequential. Tensors, names, options and modes stay.
//
// A batch norm elsewhere is a member of a class whose forward calls torch's by name, and
// cannot be replaced from outside. Throws Error(kUsage), which names all of them, before
// anything has changed; with kList their FQNs are returned. Call it before an engine is
// made.
std::vector<std::string> convert_sync_batchnorm(torch::nn::Module& root,
                                                Unreached unreached = Unreached::kRefuse);

}  // namespace zero

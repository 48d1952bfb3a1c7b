#include "zero/batch_norm.h"

#include <sstream>

#include "engine/unit/batch_norm_ranks.h"
#include "engine/unit/exchange_tape.h"
#include "zero/errors.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of all ranks: tensors of the device.
struct BatchStatistics {
  double count = 0;
  at::Tensor mean, var;  // (features) double; biased
};

// Of this rank's values, (1 + 2 * features) double on the host.
at::Tensor own_statistics(const at::Tensor& x) {
  const int64_t features = x.size(1);
  const at::TensorOptions wide = at::TensorOptions(at::kDouble);
  at::Tensor own = at::zeros({1 + 2 * features}, wide);
  if (x.numel() == 0) return own;
  // The running statistics that this updates are of nobody: they make its results fp32.
  const at::Tensor unused = at::zeros({2, features}, x.options().dtype(at::kFloat));
  const auto [mean, var] = at::batch_norm_update_stats(x, unused[0], unused[1], 0.0);
  own[0] = static_cast<double>(x.numel() / features);
  own.slice(0, 1).copy_(at::cat({mean, var}));
  return own;
}

BatchStatistics statistics_of(const at::Tensor& x, BatchNormRanks& ranks) {
  const int64_t features = x.size(1);
  const at::Tensor all =
      ExchangeTape::result_of([&] { return ranks.statistics(own_statistics(x)); });
  const at::Tensor here = all.to(x.device());
  return {all[0].item<double>(), here.slice(0, 1, 1 + features),
          here.slice(0, 1 + features)};
}

struct RanksHolder : torch::CustomClassHolder {
  explicit RanksHolder(std::shared_ptr<BatchNormRanks> of) : ranks(std::move(of)) {}
  const std::shared_ptr<BatchNormRanks> ranks;
};

// The batch norm of given statistics that depend on the inputs of all ranks.
struct SyncedNorm : torch::autograd::Function<SyncedNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const BatchStatistics& of, double eps,
                            const std::shared_ptr<BatchNormRanks>& ranks) {
    const at::Tensor mean = of.mean.to(at::kFloat), var = of.var.to(at::kFloat);
    context->save_for_backward({x, weight, mean, var});
    context->saved_data["count"] = of.count;
    context->saved_data["eps"] = eps;
    context->saved_data["ranks"] =
        c10::IValue::make_capsule(c10::make_intrusive<RanksHolder>(ranks));
    if (x.numel() == 0) return at::empty_like(x);
    return std::get<0>(at::native_batch_norm(x, weight, bias, mean, var,
                                             /*training=*/false, /*momentum=*/0, eps));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto holder = c10::static_intrusive_pointer_cast<RanksHolder>(
        context->saved_data["ranks"].toCapsule());
    BatchNormRanks& ranks = *holder->ranks;
    if (torch::GradMode::is_enabled())
      reject("create_graph through a synchronised batch norm", ranks.fqn(),
             "it has first derivatives only: compute what needs second ones in eval(), "
             "or without Options::sync_batch_norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    // Sums over this rank's values: of dy * normalised x, and of dy.
    at::Tensor of_weight = at::zeros_like(mean), of_bias = at::zeros_like(mean);
    const at::Tensor none = at::empty({0}, mean.options());  // GPUs take no null here
    if (x.numel() > 0)
      std::tie(std::ignore, of_weight, of_bias) =
          at::native_batch_norm_backward(grads[0], x, weight, mean, var, none, none,
                                         /*train=*/false, eps, {false, true, true});
    at::Tensor of_x;
    if (context->needs_input_grad(0)) {
      const at::Tensor sums =
          ranks.sum(at::stack({of_bias, of_weight}).to(at::kCPU, at::kDouble)) /
          context->saved_data["count"].toDouble();
      of_x = input_grad(grads[0], x, weight, mean, var, eps, sums.to(x.device()));
    }
    return {of_x, of_weight, of_bias, {}, {}, {}};
  }

  // means (2, features) double: of dy and of dy * normalised x, over all ranks.
  // dx = weight / std * (dy - mean(dy) - normalised x * mean(dy * normalised x)).
  static at::Tensor input_grad(const at::Tensor& grad, const at::Tensor& x,
                               const at::Tensor& weight, const at::Tensor& mean,
                               const at::Tensor& var, double eps,
                               const at::Tensor& means) {
    std::vector<int64_t> shape(x.dim(), 1);
    shape[1] = x.size(1);
    const auto spread = [&](const at::Tensor& values) {
      return values.to(at::kFloat).view(shape);
    };
    const at::Tensor inverse_std = (var.to(at::kDouble) + eps).rsqrt();
    const at::Tensor factor = weight.to(at::kDouble) * inverse_std;  // of dy
    return (x.to(at::kFloat) - spread(mean))
        .mul_(spread(-factor * inverse_std * means[1]))
        .sub_(spread(factor * means[0]))
        .addcmul_(grad.to(at::kFloat), spread(factor))
        .to(x.scalar_type());
  }
};

void require_float(const at::Tensor& x, const std::string& fqn) {
  const at::ScalarType type = x.scalar_type();
  if (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) return;
  reject(std::string("a synchronised batch norm of type ") + c10::toString(type), fqn,
         "float, bfloat16 or half");
}

// As torch: of the values so far 1 - momentum is kept, and variances are unbiased.
void update_running(const at::Tensor& running, const at::Tensor& now, double momentum) {
  running.copy_(running.to(at::kDouble) * (1 - momentum) + now * momentum);
}

}  // namespace

BatchNormBase& BatchNormBase::operator=(const BatchNormBase& other) {
  options = other.options;
  weight = other.weight;
  bias = other.bias;
  running_mean = other.running_mean;
  running_var = other.running_var;
  num_batches_tracked = other.num_batches_tracked;
  return *this;
}

void BatchNormBase::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void BatchNormBase::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  torch::nn::init::ones_(weight);
  torch::nn::init::zeros_(bias);
}

at::Tensor BatchNormBase::run(const at::Tensor& x, bool is_training, int64_t least_dims,
                              int64_t most_dims) {
  if (x.dim() < least_dims || x.dim() > most_dims)
    reject("a batch norm of an input of shape " + c10::str(x.sizes()),
           ranks ? ranks->fqn() : description(most_dims - 2),
           "an input of " + std::to_string(most_dims) +
               " dimensions: batch, channels, and so on");
  if (is_training && ranks) return run_synced(x);
  if (is_training && x.numel() == x.size(1) && x.numel() > 0)
    reject("a batch norm in training, and there is 1 value per channel",
           description(most_dims - 2), "2 or more: a larger batch, or eval()");
  const bool tracks = options.track_running_stats();
  const double momentum = is_training && tracks ? count_batch() : 0.0;
  return torch::nn::functional::detail::batch_norm(x, running_mean, running_var, weight,
                                                   bias, is_training || !tracks, momentum,
                                                   options.eps());
}

double BatchNormBase::count_batch() {
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum()
                            : 1.0 / num_batches_tracked.item<double>();
}

at::Tensor BatchNormBase::run_synced(const at::Tensor& x) {
  require_float(x, ranks->fqn());
  if (x.size(1) != options.num_features() &&
      (options.affine() || options.track_running_stats()))
    reject("a batch norm of an input of shape " + c10::str(x.sizes()), ranks->fqn(),
           std::to_string(options.num_features()) + " channels, its second size");
  const at::TensorOptions type = x.options().dtype(at::kFloat);
  BatchStatistics of;
  {
    const torch::NoGradGuard no_grad;
    of = statistics_of(x, *ranks);
    if (options.track_running_stats()) {
      const double momentum = count_batch();
      update_running(running_mean, of.mean, momentum);
      update_running(running_var, of.var * (of.count / (of.count - 1)), momentum);
    }
  }
  return SyncedNorm::apply(x, weight.defined() ? weight : at::ones({x.size(1)}, type),
                           bias.defined() ? bias : at::zeros({x.size(1)}, type), of,
                           options.eps(), ranks);
}

std::string BatchNormBase::description(int64_t dims) const {
  std::ostringstream text;
  text << std::boolalpha << "zero::BatchNorm" << dims << "d(" << options.num_features()
       << ", eps=" << options.eps() << ", momentum=";
  options.momentum() ? text << *options.momentum() : text << "None";
  text << ", affine=" << options.affine()
       << ", track_running_stats=" << options.track_running_stats() << ')';
  return text.str();
}

}  // namespace zero

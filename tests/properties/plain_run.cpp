// The reference: plain LibTorch, one copy of the module per rank, and fp32 masters.
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "engine/unit/call_seed.h"
#include "tests/properties/net.h"
#include "tests/properties/runs.h"

namespace zero::properties {
namespace {

constexpr double kMaxNorm = 1e18;

// Gives a unit the random numbers that it would have in an engine.
class SeededUnit : public UnitRunner {
 public:
  explicit SeededUnit(std::string fqn) : fqn_(std::move(fqn)) {}
  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<UnitInput> inputs) override {
    const CallSeed seed(fqn_);
    std::vector<at::Tensor> tensors;
    for (const UnitInput& input : inputs) tensors.push_back(input.tensor);
    return body(tensors);
  }

 private:
  const std::string fqn_;
};

// One rank's copy.
struct Copy {
  std::shared_ptr<RootImpl> model;
  std::vector<std::pair<std::string, at::Tensor>> params;
  std::map<int, std::pair<at::Tensor, at::Tensor>> losses;  // x and loss, by number
};

class PlainRun {
 public:
  explicit PlainRun(const Case& of)
      : case_(of), options_(options_of(of)), logs_(of.ranks) {
    for (int rank = 0; rank < of.ranks; ++rank) copies_.push_back(make_copy());
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& [fqn, param] : copies_[0].params) {
      masters_.push_back(param.detach().to(at::kFloat, false, /*copy=*/true));
      if (!param.requires_grad()) continue;
      masters_.back().set_requires_grad(true);
      groups.push_back(group_of(fqn, masters_.back()));
      gradient_.push_back(torch::zeros_like(masters_.back()));
    }
    if (of.setting("fp16") > 0)
      for (Copy& copy : copies_) make_fp16(*copy.model);
    for (size_t p = 0; p < masters_.size(); ++p) keep(p);
    share_values();
    if (!groups.empty())
      adamw_.emplace(groups, torch::optim::AdamWOptions(kLearningRate));
  }

  std::vector<Log> run() {
    for (const Step& step : make_schedule(case_)) {
      event_ = step.event;
      if (!step.is_refused) play(step);
    }
    return std::move(logs_);
  }

 private:
  Copy make_copy() const {
    Copy copy{std::make_shared<RootImpl>(case_), {}, {}};
    copy.params = params_of(*copy.model);
    for (auto& [fqn, param] : copy.params) {
      const ParamGroup* group = find_group(fqn);
      if (group && group->frozen) param.set_requires_grad(false);
    }
    if (!case_.may_draw) return copy;
    for (const auto& item : copy.model->named_modules()) {
      auto* hook = dynamic_cast<UnitHook*>(item.value().get());
      if (hook && !hook->runner) hook->runner = std::make_shared<SeededUnit>(item.key());
    }
    return copy;
  }

  // As an engine keeps it that never trains it, but for what stays fp32.
  void keep(size_t p) {
    const torch::NoGradGuard no_grad;
    if (masters_[p].requires_grad()) return;
    for (const auto& module : copies_[0].model->modules()) {
      if (!dynamic_cast<torch::nn::BatchNorm1dImpl*>(module.get())) continue;
      for (const at::Tensor& param : module->parameters(/*recurse=*/false))
        if (param.is_same(copies_[0].params[p].second)) return;
    }
    masters_[p].copy_(kept_value(masters_[p], options_.frozen_dtype));
  }

  // But for what stays fp32 in an engine's units, too.
  static void make_fp16(torch::nn::Module& model) {
    for (const auto& module : model.modules()) {
      if (dynamic_cast<torch::nn::BatchNorm1dImpl*>(module.get())) continue;
      for (at::Tensor& param : module->parameters(/*recurse=*/false))
        param.set_data(param.to(at::kHalf));
    }
  }
  at::Tensor in_type(const at::Tensor& argument) const {
    return case_.setting("fp16") > 0 ? argument.to(at::kHalf) : argument;
  }
  // What the loss is multiplied with in backward; powers of two.
  double scale() const {
    return case_.setting("fp16") > 0 ? case_.setting("fp16") / options_.nominal_targets
                                     : 1;
  }

  const ParamGroup* find_group(const std::string& fqn) const {
    for (const ParamGroup& group : options_.groups) {
      if (fqn.ends_with(group.pattern.substr(1))) return &group;
    }
    return nullptr;
  }

  torch::optim::OptimizerParamGroup group_of(const std::string& fqn,
                                             const at::Tensor& param) const {
    const ParamGroup* group = find_group(fqn);
    const bool decays =
        param.dim() >= 2 || options_.weight_decay_on == WeightDecayOn::kAll;
    const double decay = decays ? options_.optimizer.weight_decay : 0;
    auto settings = std::make_unique<torch::optim::AdamWOptions>(
        kLearningRate * (group ? group->lr_scale : 1));
    settings->betas({options_.optimizer.beta1, options_.optimizer.beta2})
        .eps(options_.optimizer.eps)
        .weight_decay(group && group->weight_decay ? *group->weight_decay : decay);
    return {{param}, std::move(settings)};
  }

  void play(const Step& step) {
    switch (step.what) {
      case Do::kForward:
        return forward_all(step, true);
      case Do::kNoGrad:
        return forward_all(step, false);
      case Do::kThrowInForward:
        return throw_in_forward(step);
      case Do::kBackward:
      case Do::kBackwardOfTwo:
        return backward(step);
      case Do::kForeign:
        return foreign(step);
      case Do::kDrop:
        for (Copy& copy : copies_) {
          for (const int number : step.losses) copy.losses.erase(number);
        }
        return;
      case Do::kTrain:
      case Do::kEval:
        for (Copy& copy : copies_) copy.model->train(step.what == Do::kTrain);
        return;
      case Do::kThrowInBackward:
      case Do::kDiscard:
        forget_step();
        return see_buffers();
      case Do::kStep:
        return finish_step();
      case Do::kLook:
        return look();
      case Do::kSet:
        return set(step);
      case Do::kAverage:
        return average_buffers();
      case Do::kSave:
        return save();
      case Do::kLoad:
        return load(step);
      case Do::kFreeze:
        return freeze(step);
      case Do::kUseOld:
      case Do::kCallDirect:
        return;
    }
  }

  void see(int rank, const std::string& what, const at::Tensor& value) {
    logs_[rank].push_back({event_, what, value.detach().clone()});
  }
  void see_all(const std::string& what, const at::Tensor& value) {
    for (int rank = 0; rank < case_.ranks; ++rank) see(rank, what, value);
  }
  void see_buffers() {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      for (const auto& item : copies_[rank].model->named_buffers())
        see(rank, "buffer " + item.key(), item.value());
    }
  }

  std::pair<at::Tensor, at::Tensor> forward(const Step& step, int rank, bool trains) {
    auto [x, c] = data_of(case_, step, rank);
    x.set_requires_grad(trains && case_.setting("x_needs_grad"));
    std::optional<CallSeed> seed;
    if (case_.may_draw) {
      const int64_t micro_batch =
          Mesh(case_.ranks, options_.shard_ranks)
              .micro_batch(rank, num_passes_, options_.micro_batches_per_rank);
      seed.emplace(forward_seed(options_.seed, num_steps_, micro_batch, trains,
                                trains ? num_forwards_ : num_forwards_without_grad_));
    }
    const at::AutoGradMode mode(trains);
    const at::Tensor loss =
        copies_[rank].model->forward(in_type(x), in_type(c), step.flip);
    return {x, loss};
  }
  void forward_all(const Step& step, bool trains) {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const auto [x, loss] = forward(step, rank, trains);
      see(rank, "loss", loss);
      if (trains) copies_[rank].losses[step.losses[0]] = {x, loss};
    }
    ++(trains ? num_forwards_ : num_forwards_without_grad_);
    see_buffers();
  }

  // A forward that threw has drawn nothing.
  void throw_in_forward(const Step& step) {
    bool has_thrown = false;
    for (int rank = 0; rank < case_.ranks; ++rank) {
      Fuse& fuse = copies_[rank].model->fuse();
      fuse.left = step.pick % 6;
      has_thrown = false;
      try {
        forward(step, rank, true);
      } catch (const Burnt&) {
        has_thrown = true;
      }
      fuse.left = -1;
      see(rank, "exception", torch::tensor(has_thrown));
    }
    num_forwards_ += !has_thrown;
    see_buffers();
  }

  void backward(const Step& step) {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      Copy& copy = copies_[rank];
      at::Tensor sum = torch::zeros({});
      for (const int number : step.losses) sum = sum + copy.losses.at(number).second;
      loss_total_ += sum.item<double>();
      num_targets_ += num_targets_of(step, rank);
      (sum * scale()).backward();
      size_t i = 0;
      for (size_t p = 0; p < copy.params.size(); ++p) {
        if (!masters_[p].requires_grad()) continue;
        at::Tensor& param = copy.params[p].second;
        if (param.grad().defined()) gradient_[i] += param.grad().to(at::kFloat) / scale();
        param.mutable_grad().reset();
        ++i;
      }
      for (const int number : step.losses) {
        if (case_.setting("x_needs_grad"))
          see(rank, "gradient of x", copy.losses.at(number).first.grad() / scale());
        copy.losses.erase(number);
      }
    }
    ++num_passes_;
    num_forwards_ = 0;
    see_buffers();
  }

  void foreign(const Step& step) {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const auto& [x, loss] = copies_[rank].losses.at(step.losses[0]);
      see(rank, "foreign gradient of x",
          torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/!step.ends_losses)[0]);
      if (step.ends_losses) copies_[rank].losses.erase(step.losses[0]);
    }
    see_buffers();
  }

  at::Tensor mean_gradient(size_t i) const { return gradient_[i] / num_targets_; }

  void look() {
    size_t i = 0;
    for (size_t p = 0; p < masters_.size(); ++p) {
      if (!masters_[p].requires_grad()) continue;
      const auto& [fqn, param] = copies_[0].params[p];
      if (param.requires_grad()) see_all("gradient of " + fqn, mean_gradient(i));
      ++i;
    }
  }

  void finish_step() {
    double squares = 0;
    for (size_t i = 0; i < gradient_.size(); ++i)
      squares += mean_gradient(i).pow(2).sum().item<double>();
    const double norm = std::sqrt(squares);
    // Above 1.8e19 the engine's v is infinite (offload/optimizer.h), torch's a little
    // later.
    if (!(norm <= kMaxNorm)) throw std::overflow_error("the model has exploded");
    const double clip =
        options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1;
    size_t i = 0;
    for (size_t p = 0; p < masters_.size(); ++p) {
      if (!masters_[p].requires_grad()) continue;
      if (copies_[0].params[p].second.requires_grad())
        masters_[p].mutable_grad() = mean_gradient(i) * clip;
      ++i;
    }
    if (adamw_) {
      adamw_->step();
      adamw_->zero_grad();
    }
    see_all("loss of the step", torch::tensor(loss_total_ / num_targets_));
    see_all("number of targets", torch::tensor(num_targets_));
    see_all("norm", torch::tensor(norm));
    see_all("clip_coef", torch::tensor(clip));
    ++num_steps_;
    forget_step();
    share_params();
    options_.average_buffers_each_step ? average_buffers() : see_buffers();
  }

  // All copies get the masters' values.
  void share_values() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < masters_.size(); ++i) {
      for (Copy& copy : copies_) copy.params[i].second.copy_(masters_[i]);
    }
  }
  void share_params() {
    share_values();
    for (size_t i = 0; i < masters_.size(); ++i)
      see_all("parameter " + copies_[0].params[i].first, masters_[i]);
  }

  void set(const Step& step) {
    const torch::NoGradGuard no_grad;
    at::Tensor& master = masters_[step.pick % masters_.size()];
    master.copy_(new_value(step, master.sizes()));
    keep(step.pick % masters_.size());
    share_params();
  }

  void freeze(const Step& step) {
    const size_t p = step.pick % masters_.size();
    for (Copy& copy : copies_) {
      for (const int number : step.losses) copy.losses.erase(number);
      auto& [fqn, param] = copy.params[p];
      if (may_freeze(fqn, masters_[p].requires_grad()))
        param.set_requires_grad(!step.flip);
    }
  }

  std::vector<at::Tensor> averaged_buffers() const {
    std::vector<at::Tensor> result;
    for (const auto& item : copies_[0].model->named_buffers()) {
      std::vector<at::Tensor> values;
      for (const Copy& copy : copies_)
        values.push_back(copy.model->named_buffers()[item.key()]);
      const at::Tensor all = torch::stack(values);
      result.push_back(all.is_floating_point() ? all.mean(0) : std::get<0>(all.max(0)));
    }
    return result;
  }
  void set_buffers(const std::vector<at::Tensor>& values) {
    const torch::NoGradGuard no_grad;
    for (const Copy& copy : copies_) {
      size_t i = 0;
      for (auto& item : copy.model->named_buffers()) item.value().copy_(values[i++]);
    }
    see_buffers();
  }
  void average_buffers() { set_buffers(averaged_buffers()); }

  void save() {
    saved_ = {num_steps_, averaged_buffers(), {}, {}};
    for (const at::Tensor& master : masters_)
      saved_.params.push_back(master.detach().clone());
    if (adamw_) saved_.moments = copy_of(adamw_->state());
  }
  void load(const Step& step) {
    for (Copy& copy : copies_) {
      for (const int number : step.losses) copy.losses.erase(number);
    }
    forget_step();
    num_steps_ = saved_.num_steps;
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < saved_.params.size(); ++i) masters_[i].copy_(saved_.params[i]);
    if (adamw_) adamw_->state() = copy_of(saved_.moments);
    share_params();
    set_buffers(saved_.buffers);
  }

  using Moments =
      std::remove_reference_t<decltype(std::declval<torch::optim::AdamW>().state())>;
  static Moments copy_of(const Moments& given) {
    Moments copies;
    for (const auto& [param, state] : given) {
      const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state);
      auto copy = std::make_unique<torch::optim::AdamWParamState>();
      copy->step(moments.step());
      copy->exp_avg(moments.exp_avg().clone());
      copy->exp_avg_sq(moments.exp_avg_sq().clone());
      copies[param] = std::move(copy);
    }
    return copies;
  }

  void forget_step() {
    for (at::Tensor& sum : gradient_) sum.zero_();
    loss_total_ = 0;
    num_targets_ = num_passes_ = num_forwards_ = num_forwards_without_grad_ = 0;
  }

  struct Saved {
    int64_t num_steps = 0;
    std::vector<at::Tensor> buffers, params;
    Moments moments;
  };

  const Case& case_;
  const Options options_;
  std::vector<Copy> copies_;
  std::optional<torch::optim::AdamW> adamw_;
  std::vector<at::Tensor> masters_;   // fp32, of each parameter
  std::vector<at::Tensor> gradient_;  // of each trained one, of the step so far
  double loss_total_ = 0;
  int64_t num_targets_ = 0, num_passes_ = 0, num_steps_ = 0;
  uint64_t num_forwards_ = 0, num_forwards_without_grad_ = 0;
  Saved saved_;
  int event_ = 0;
  std::vector<Log> logs_;
};

}  // namespace

std::vector<Log> run_plain(const Case& of) { return PlainRun(of).run(); }

}  // namespace zero::properties

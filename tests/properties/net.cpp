#include "tests/properties/net.h"

#include <set>

#include "offload/random.h"

namespace zero::properties {

at::Tensor numbers(at::IntArrayRef shape, uint64_t key) {
  at::Tensor values = at::empty(shape, at::kFloat);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const uint32_t bits = philox(key, static_cast<uint64_t>(i), 0)[0];
    values.data_ptr<float>()[i] = static_cast<float>(bits) * 0x1p-31f - 1;
  }
  return values;
}

NetImpl::NetImpl(const Node& node, const std::shared_ptr<Parts>& parts)
    : node_{node.kind, node.is_unit, node.is_frozen, node.same_as, node.has_scale, {}},
      parts_(parts) {
  if (has_children(node.kind)) {
    add_children(node.children);
    if (node.has_scale) w_ = add_param("w", {kWidth}, 1, 0.4);
  } else {
    add_leaf();
  }
  if (node.is_frozen) {
    for (at::Tensor& param : parameters(/*recurse=*/false))
      param.set_requires_grad(false);
  }
}

// A new parameter, or an earlier one of the same shape.
at::Tensor NetImpl::add_param(const std::string& name, std::vector<int64_t> shape,
                              double middle, double spread) {
  std::vector<at::Tensor> fitting;
  for (const at::Tensor& param : parts_->params) {
    if (param.sizes() == at::IntArrayRef(shape)) fitting.push_back(param);
  }
  if (name == "w" && node_.same_as > 0 && !fitting.empty())
    return register_parameter(name, fitting[node_.same_as % fitting.size()],
                              fitting[node_.same_as % fitting.size()].requires_grad());
  const uint64_t key = hash_key(parts_->key, parts_->params.size());
  const at::Tensor param =
      register_parameter(name, (numbers(shape, key) * spread + middle));
  if (name == "w") parts_->params.push_back(param);
  return param;
}

void NetImpl::add_leaf() {
  switch (node_.kind) {
    case Kind::kLinear:
      w_ = add_param("w", {kWidth, kWidth}, 0, 0.8);
      b_ = add_param("b", {kWidth}, 0, 0.5);
      return;
    case Kind::kLayerNorm:
      w_ = add_param("w", {kWidth}, 1, 0.4);
      b_ = add_param("b", {kWidth}, 0, 0.5);
      return;
    case Kind::kBatchNorm:
      // A large eps: nearly equal rows would make rounding errors large.
      norm_ = register_module(
          "norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(kWidth).eps(0.1)));
      return;
    case Kind::kTurn:
      w_ = add_param("w", {kWidth}, 1, 0.4);
      u_ = register_buffer("u", torch::linspace(0.1, 0.5, kWidth));
      return;
    case Kind::kAgain:
      if (parts_->modules.empty()) return;
      children_.push_back(parts_->modules[node_.same_as % parts_->modules.size()]);
      register_module("again", children_[0]);
      return;
    case Kind::kDropout:
      return;
    default:
      w_ = add_param("w", {kWidth}, 1, 0.4);
  }
}

void NetImpl::add_children(const std::vector<Node>& children) {
  for (size_t i = 0; i < children.size(); ++i) {
    children_.push_back(children[i].is_unit
                            ? Unit<NetImpl>(children[i], parts_).ptr()
                            : std::make_shared<NetImpl>(children[i], parts_));
    register_module(std::to_string(i), children_.back());
    parts_->modules.push_back(children_.back());
  }
}

at::Tensor NetImpl::forward(at::Tensor x, bool flip) {
  parts_->fuse.burn();
  const auto after = [&](const at::Tensor& y) { return w_.defined() ? y * w_ : y; };
  switch (node_.kind) {
    case Kind::kSequence:
    case Kind::kReverse:
      return after(sequence(x, flip));
    case Kind::kResidual:
      return after(x + sequence(x, flip));
    case Kind::kDetach:
      return after(x + sequence(x, flip).detach());
    case Kind::kQuiet: {
      const auto quietly = [&] {
        const torch::NoGradGuard no_grad;
        return sequence(x, flip);
      };
      return after(x + quietly().detach());  // it may be x itself
    }
    case Kind::kRepeat:
      return after(sequence(sequence(x, flip), flip));
    case Kind::kSkip:
      return after(flip ? x : sequence(x, flip));
    default:
      return leaf(x, flip);
  }
}

at::Tensor NetImpl::leaf(const at::Tensor& x, bool flip) {
  switch (node_.kind) {
    case Kind::kLinear:
      return torch::tanh(torch::addmm(b_, x, w_));
    case Kind::kLayerNorm:
      return torch::layer_norm(x, {kWidth}, w_, b_, 0.1);
    case Kind::kBatchNorm:
      return norm_(x + 0.1);
    case Kind::kTurn:
      if (is_training()) {
        const torch::NoGradGuard no_grad;
        // Never at rest: the engine takes a forward that leaves a buffer as it is for a
        // reader, and refuses a change before its backward.
        u_.copy_(u_ * 0.9 + x.mean(0) * 0.1 + 0.01);
      }
      return (x * w_ + u_.clone()).to(x.scalar_type());
    case Kind::kView:
      return w_.expand_as(x);
    case Kind::kInPlace:
      x.mul_(w_);
      return flip ? x : x + 1;
    case Kind::kDropout:
      return torch::dropout(x, 0.4, is_training());
    case Kind::kPass:
      return x;
    case Kind::kAgain:
      return children_.empty() ? x : call(children_[0], x, flip);
    default:
      return x * w_;
  }
}

at::Tensor NetImpl::call(const std::shared_ptr<NetImpl>& child, const at::Tensor& x,
                         bool flip) {
  const auto run = [&](const at::Tensor& in) {
    return dynamic_cast<UnitHook*>(child.get()) ? Unit<NetImpl>(child)(in, flip)
                                                : child->forward(in, flip);
  };
  if (child->node_.kind == Kind::kView) return x.sin() + run(x);
  if (child->node_.kind != Kind::kInPlace) return run(x);
  const at::Tensor own = x * 1;
  const at::Tensor y = run(own);
  return y + own * 0.5;  // as the child left it
}

at::Tensor NetImpl::sequence(at::Tensor x, bool flip) {
  const size_t size = children_.size();
  for (size_t i = 0; i < size; ++i) {
    const bool reverses = flip && node_.kind == Kind::kReverse;
    x = call(children_[reverses ? size - 1 - i : i], x, flip);
  }
  return x;
}

RootImpl::RootImpl(const Case& of, uint64_t key) : parts_(std::make_shared<Parts>()) {
  parts_->key = hash_key(hash_key(of.seed, "first values"), key);
  parts_->may_draw = of.may_draw;
  Node model = of.model;
  model.is_unit = model.is_frozen = false;
  net_ = register_module("net", std::make_shared<NetImpl>(model, parts_));
  if (of.setting("head"))
    head_ = register_parameter("head", numbers({kWidth}, parts_->key) + 2);
}

at::Tensor RootImpl::forward(const at::Tensor& x, const at::Tensor& c, bool flip) {
  at::Tensor y = net_->forward(x, flip);
  if (head_.defined()) y = y * head_;
  y = y.to(at::kFloat);  // as losses are made, whatever the units compute in
  return (y * c.to(at::kFloat)).sum() + 0.1 * y.pow(2).sum();
}

std::vector<std::pair<std::string, at::Tensor>> params_of(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> params;
  std::set<c10::TensorImpl*> seen;
  for (const auto& item : model.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second)
      params.emplace_back(item.key(), item.value());
  }
  return params;
}

}  // namespace zero::properties

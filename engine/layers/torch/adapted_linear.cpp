// A frozen linear layer with its adapter, as one function: y = W x + b + scale * B A x.
// Nothing as large as x or y is made in fp32 where they are shorter and products can
// avoid it, and the adapter's part is added where the layer's is, each way.
#include <torch/torch.h>

#include <algorithm>

#include "engine/layers/torch/passes.h"
#include "zero/linear.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Maybe = std::optional<at::Tensor>;

// Tensors of bf16 whose sum is one of fp32, to its last bit or the next.
struct Thirds {
  explicit Thirds(const at::Tensor& whole) : high(whole.to(at::kBFloat16)) {
    const at::Tensor rest = whole - high;
    middle = rest.to(at::kBFloat16);
    low = (rest - middle).to(at::kBFloat16);
  }
  at::Tensor high, middle, low;
};

// GPUs multiply bf16 much faster than fp32, exactly, and add up in fp32.
bool has_thirds(const at::Tensor& x) {
  return !x.is_cpu() && x.scalar_type() == at::kBFloat16;
}

// Where fp32 is made of 16 bits, a CPU makes it of so many rows at a time.
int64_t rows_at_once(const at::Tensor& rows) {
  return rows.is_cpu() ? 128 : std::max<int64_t>(1, rows.size(0));
}

// For each stretch of rows: where it begins, and how many.
template <class Work>
void by_rows(const at::Tensor& rows, const Work& work) {
  const int64_t count = rows.size(0), most = rows_at_once(rows);
  for (int64_t begin = 0; begin < count; begin += most)
    work(begin, std::min(most, count - begin));
}

// a (n, k) of the layer's type times b (k, r) in the adapter's: (n, r) in the adapter's.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return at::mm(a, b);
  if (!has_thirds(a)) {
    std::vector<at::Tensor> stretches;
    for (const at::Tensor& rows : a.split(rows_at_once(a)))
      stretches.push_back(at::mm(rows.to(b.scalar_type()), b));
    return at::cat(stretches);
  }
  const Thirds of_b(b);
  const at::Tensor parts =
      at::mm(a, at::cat({of_b.low, of_b.middle, of_b.high}, 1), b.scalar_type());
  return parts.view({a.size(0), 3, b.size(1)}).sum(1);
}

// a (n, r) in the adapter's type, b (n, k) of the layer's: a^T b, (r, k) in the
// adapter's.
at::Tensor product_over_rows(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return at::mm(a.t(), b);
  if (!has_thirds(b)) {
    at::Tensor sum = at::zeros({a.size(1), b.size(1)}, a.options());
    by_rows(a, [&](int64_t begin, int64_t count) {
      sum.addmm_(a.narrow(0, begin, count).t(),
                 b.narrow(0, begin, count).to(a.scalar_type()));
    });
    return sum;
  }
  const Thirds of_a(a);
  const at::Tensor parts =
      at::mm(at::cat({of_a.low, of_a.middle, of_a.high}, 1).t(), b, a.scalar_type());
  return parts.view({3, a.size(1), b.size(1)}).sum(0);
}

// y (n, k) of the layer's type += a (n, r) b (r, k) in the adapter's, rounded once.
void add_product(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b) {
  if (y.scalar_type() == a.scalar_type()) return void(y.addmm_(a, b));
  if (!has_thirds(y)) {
    return by_rows(y, [&](int64_t begin, int64_t count) {
      y.narrow(0, begin, count).add_(at::mm(a.narrow(0, begin, count), b));
    });
  }
  const Thirds p(a), q(b);  // other products are far below what y can tell
  y.addmm_(at::cat({p.middle, p.high, p.high}, 1),
           at::cat({q.high, q.middle, q.high}, 0));
}

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Rows of a tensor as large as x in all dimensions but the last.
at::Tensor laid_out_along(const at::Tensor& x, const at::Tensor& rows) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = rows.size(1);
  return at::_unsafe_view(rows, sizes);
}

// What the layer is made of. Of x the adapter sees what the mask has, if there is one.
struct AdaptedLayer {
  at::Tensor x, weight, a, b;
  Maybe mask, bias;
  double scale;

  at::Tensor seen() const { return mask ? x * *mask : x; }
  at::Tensor low() const { return product(rows_of(seen()), a.t()) * scale; }
  at::Tensor result(const at::Tensor& low_rows) const {
    const at::Tensor rows = rows_of(x);
    at::Tensor y;
    if (begins_with_adapter(rows)) {
      y = bias ? at::addmm(*bias, low_rows, b.t()) : at::mm(low_rows, b.t());
      y.addmm_(rows, weight.t());
    } else {
      y = linear(rows, weight, bias.value_or(at::Tensor()));
      add_product(y, low_rows, b.t());
    }
    return laid_out_along(x, y);
  }
  // The gradient of x, of the rows of its result's and of low's.
  at::Tensor input_grad(const at::Tensor& grad, const at::Tensor& low_grad) const {
    if (begins_with_adapter(grad)) {
      at::Tensor x_grad = at::mm(low_grad, a);
      if (mask) x_grad.mul_(rows_of(*mask));
      return x_grad.addmm_(grad, weight);
    }
    at::Tensor x_grad = at::mm(grad, weight);
    at::Tensor seen_grad = mask ? at::zeros_like(x_grad) : x_grad;
    add_product(seen_grad, low_grad, a);
    if (mask) x_grad.add_(seen_grad.mul_(rows_of(*mask)));
    return x_grad;
  }

 private:
  // The large product adds to what is there without a pass of its own, but rounds in
  // between where the types are short. linear() is faster with few rows.
  bool begins_with_adapter(const at::Tensor& rows) const {
    return rows.scalar_type() == a.scalar_type() && rows.size(0) > 16;
  }
};

struct AdaptedFunction : torch::autograd::Function<AdaptedFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& a,
                            const at::Tensor& b, const Maybe& mask, const Maybe& bias,
                            double scale) {
    const AdaptedLayer layer{x, weight, a, b, mask, bias, scale};
    const at::Tensor low = layer.low();
    context->saved_data["scale"] = scale;
    context->save_for_backward({x, weight, a, b, low, mask.value_or(at::Tensor())});
    return layer.result(low);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const AdaptedLayer layer{saved[0],
                             saved[1],
                             saved[2],
                             saved[3],
                             maybe(saved[5]),
                             std::nullopt,
                             context->saved_data["scale"].toDouble()};
    const at::Tensor grad = rows_of(grads[0]);
    // With a graph of its own it depends on what low was made of.
    const at::Tensor low = torch::GradMode::is_enabled() ? layer.low() : saved[4];
    const at::Tensor low_grad = product(grad, layer.b) * layer.scale;
    variable_list found(7);
    if (context->needs_input_grad(0))
      found[0] = laid_out_along(grads[0], layer.input_grad(grad, low_grad));
    if (context->needs_input_grad(2))
      found[2] = product_over_rows(low_grad, rows_of(layer.seen()));
    if (context->needs_input_grad(3))
      found[3] = product_over_rows(low, grad).t().contiguous();
    return found;
  }
};

// Is it frozen, and of plain tensors whose types fit?
bool is_one_function(const AdaptedLayer& layer) {
  return !layer.weight.requires_grad() && !(layer.bias && layer.bias->requires_grad()) &&
         are_plain_on(layer.x.device().type(), {layer.x, layer.weight}) &&
         are_plain_on(layer.x.device().type(), {layer.a, layer.b}) &&
         layer.a.device() == layer.x.device() &&
         layer.a.scalar_type() == wide_type(layer.x);
}

}  // namespace

at::Tensor LoraLayer::adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias) const {
  if (!a_) return linear(x, weight, bias);
  AdaptedLayer layer{x,           weight, a_->weight, b_->weight, std::nullopt,
                     maybe(bias), scale_};
  if (!is_one_function(layer)) return adapted(linear(x, weight, bias), x);
  if (dropout_ > 0 && a_->is_training()) {
    layer.mask = at::empty_like(x, at::kBool).bernoulli_(1 - dropout_);
    layer.scale /= 1 - dropout_;
  }
  const bool needs_grad = torch::autograd::compute_requires_grad(x, layer.a, layer.b);
  return needs_grad ? AdaptedFunction::apply(x, weight, layer.a, layer.b, layer.mask,
                                             layer.bias, layer.scale)
                    : layer.result(layer.low());
}

}  // namespace zero

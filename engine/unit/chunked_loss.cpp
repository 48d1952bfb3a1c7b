#include "zero/chunked_loss.h"

#include <torch/torch.h>

#include <algorithm>

#include "engine/layers/torch/cross_entropy.h"
#include "engine/layers/torch/passes.h"
#include "engine/unit/discarded_graph.h"
#include "zero/errors.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnored = -1;  // among the targets

// What gradients of hidden in fp16 are multiplied with until backward tells the factor of
// the loss: many of the logits' are too small for fp16, and none is above 1. A power of
// two; what comes of it is infinite only where weights are above 32.
double raised_by(at::ScalarType hidden) { return hidden == at::kHalf ? 1024 : 1; }

// What a pass over the chunks leaves; gradients are those of the loss, raised_by() its
// type, undefined where nobody needs them.
struct Pass {
  at::Tensor loss;         // scalar, of the sums' type
  at::Tensor hidden_grad;  // (tokens, dim), of the type of hidden
  at::Tensor weight_grad;  // (vocab, dim), of the sums' type
  at::Tensor bias_grad;    // (vocab), of the sums' type
};

// Which of them are needed.
struct Wanted {
  bool hidden = false, weight = false, bias = false;
  bool any() const { return hidden || weight || bias; }
};

Wanted wanted_of(const at::Tensor& hidden, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias) {
  return {hidden.requires_grad(), weight.requires_grad(), bias && bias->requires_grad()};
}

// sum (n, m) += a (rows, n)^T b (rows, m), whose elements may be shorter: a product of
// their type would round what every chunk has of the sum.
void add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType type = sum.scalar_type();
  at::Tensor out = sum;
  if (a.is_cpu() || a.scalar_type() == type)
    out.addmm_(a.to(type).t(), b.to(type));
  else
    at::addmm_out(out, sum, a.t(), b, type);
}

at::Tensor zeros_like_sum(const at::Tensor& parameter, at::ScalarType type) {
  return at::zeros(parameter.sizes(), parameter.options().dtype(type));
}

// The loss, of the sums' type, of logits (rows, vocab) that nobody else knows. With
// `factor`, they become their gradient times it: probabilities less one at the target,
// nothing where it is ignored.
at::Tensor loss_of(at::Tensor& logits, const at::Tensor& targets,
                   std::optional<double> factor) {
  if (takes_cross_entropy(logits, targets)) {
    const at::Tensor kept = factor ? numbers_of_rows(logits) : at::Tensor();
    const at::Tensor loss = cross_entropy_sum(logits, targets, kept);
    const at::TensorOptions wide = logits.options().dtype(wide_type(logits));
    if (factor) become_gradient(logits, targets, kept, at::full({}, *factor, wide));
    return loss;
  }
  at::Tensor grad = at::log_softmax(logits, 1, wide_type(logits));
  const at::Tensor loss = at::nll_loss(grad, targets, {}, at::Reduction::Sum, kIgnored);
  if (!factor) return loss;
  const at::Tensor rows = targets.unsqueeze(1);
  grad.exp_().scatter_add_(1, rows.clamp_min(0),
                           at::full({}, -1, grad.options()).expand_as(rows));
  logits = grad.masked_fill_(rows == kIgnored, 0).mul_(*factor).to(logits.scalar_type());
  return loss;
}

Pass pass_over(const at::Tensor& hidden, const at::Tensor& weight,
               const std::optional<at::Tensor>& bias, const at::Tensor& targets,
               int64_t chunk, const Wanted& wanted) {
  const at::ScalarType type = wide_type(hidden);
  const double raise = raised_by(hidden.scalar_type());
  at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kDouble));
  Pass pass;
  if (wanted.hidden) pass.hidden_grad = at::empty_like(hidden);
  if (wanted.weight) pass.weight_grad = zeros_like_sum(weight, type);
  if (wanted.bias) pass.bias_grad = zeros_like_sum(*bias, type);
  for (int64_t begin = 0; begin < hidden.size(0); begin += chunk) {
    const int64_t rows = std::min(chunk, hidden.size(0) - begin);
    const at::Tensor part = hidden.narrow(0, begin, rows);           // (rows, dim)
    const at::Tensor part_targets = targets.narrow(0, begin, rows);  // (rows)
    at::Tensor grad = at::linear(part, weight, bias);                // (rows, vocab)
    loss +=
        loss_of(grad, part_targets, wanted.any() ? std::optional(raise) : std::nullopt);
    if (!wanted.any()) continue;
    if (wanted.hidden)
      pass.hidden_grad.narrow(0, begin, rows).copy_(at::mm(grad, weight));
    if (wanted.weight) add_product(pass.weight_grad, grad, part);
    if (wanted.bias) pass.bias_grad += grad.sum(0, /*keepdim=*/false, type);
  }
  pass.loss = loss.to(type);
  return pass;
}

void require(bool holds, const std::string& what, const std::string& cure) {
  if (!holds) reject(what, "chunked_loss()", cure);
}

// In its place where nobody asks for it again.
at::Tensor scaled(at::Tensor grad, const at::Tensor& factor) {
  if (!grad.defined()) return grad;
  const bool is_needed_again = torch::autograd::get_current_graph_task_keep_graph();
  return is_needed_again ? grad.mul(factor) : grad.mul_(factor);
}

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const at::Tensor& targets, int64_t chunk) {
    context->saved_data["raise"] = raised_by(hidden.scalar_type());
    context->saved_data["chunk"] = chunk;
    const bool waits = is_graph_discarded;
    const Pass pass = pass_over(hidden, weight, bias, targets, chunk,
                                waits ? Wanted{} : wanted_of(hidden, weight, bias));
    context->saved_data["waits"] = waits;
    context->save_for_backward(
        waits ? variable_list{hidden, weight, bias.value_or(at::Tensor()), targets}
              : grads_of(pass));
    return pass.loss;
  }

  static variable_list backward(AutogradContext* context, variable_list loss_grad) {
    require(!torch::GradMode::is_enabled(), "create_graph through it",
            "it has first derivatives only: for second ones make all logits");
    // Autograd converts what comes to the type of what it belongs to.
    const variable_list saved = context->get_saved_variables();
    const variable_list grads =
        context->saved_data["waits"].toBool()
            ? late_grads(saved, context->saved_data["chunk"].toInt())
            : saved;
    const at::Tensor factor = loss_grad[0] / context->saved_data["raise"].toDouble();
    return {scaled(grads[0], factor), scaled(grads[1], factor), scaled(grads[2], factor),
            at::Tensor(), at::Tensor()};
  }

  static variable_list grads_of(const Pass& pass) {
    return {pass.hidden_grad, pass.weight_grad, pass.bias_grad};
  }
  // Of a body that asks for them within a run whose graph is thrown away.
  static variable_list late_grads(const variable_list& inputs, int64_t chunk) {
    const std::optional<at::Tensor> bias = maybe(inputs[2]);
    return grads_of(pass_over(inputs[0], inputs[1], bias, inputs[3], chunk,
                              wanted_of(inputs[0], inputs[1], bias)));
  }
};

}  // namespace

at::Tensor chunked_loss(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& targets, int64_t chunk) {
  return chunked_loss(hidden, weight, at::Tensor(), targets, chunk);
}

at::Tensor chunked_loss(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& bias, const at::Tensor& targets,
                        int64_t chunk) {
  require(chunk > 0, "a chunk of " + std::to_string(chunk) + " tokens", "1 or more");
  require(hidden.dim() > 0 && weight.dim() == 2 && hidden.size(-1) == weight.size(1) &&
              hidden.numel() == targets.numel() * weight.size(1),
          "hidden " + c10::str(hidden.sizes()) + ", weight " + c10::str(weight.sizes()) +
              " and targets " + c10::str(targets.sizes()) + " do not fit together",
          "hidden (..., dim), weight (vocab, dim), targets (...)");
  require(!bias.defined() || bias.sizes() == weight.sizes().slice(0, 1),
          "weight " + c10::str(weight.sizes()) + " and a bias of another size",
          "bias (vocab)");
  const at::Tensor rows = hidden.reshape({targets.numel(), weight.size(1)});
  const at::Tensor row_targets = targets.reshape(-1).contiguous();
  const std::optional<at::Tensor> added = maybe(bias);
  if (torch::autograd::compute_requires_grad(hidden, weight, bias))
    return ChunkedLoss::apply(rows, weight, added, row_targets, chunk);
  return pass_over(rows, weight, added, row_targets, chunk, {}).loss;
}

}  // namespace zero

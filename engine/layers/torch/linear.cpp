#include <torch/torch.h>

#include <utility>

#include "engine/layers/torch/passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

thread_local bool takes_few_rows = false;

// Of more rows LibTorch's products are faster: those of MKL, which is slow on processors
// that are not Intel's.
int64_t most_rows() {
#ifdef __x86_64__
  static const bool is_intel = __builtin_cpu_is("intel");
  return is_intel ? 8 : 16;
#else
  return 8;
#endif
}

bool lies_end_to_end(const at::Tensor& weight) {
  return weight.is_contiguous() || weight.t().is_contiguous();
}

bool are_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return takes_few_rows && !torch::GradMode::is_enabled() &&
         x.scalar_type() == at::kFloat && x.dim() > 0 && weight.dim() == 2 &&
         x.size(-1) == weight.size(1) && x.numel() <= most_rows() * x.size(-1) &&
         lies_end_to_end(weight) && are_plain({x, weight}) &&
         (!bias.defined() || (are_plain({x, bias}) && bias.is_contiguous() &&
                              bias.dim() == 1 && bias.size(0) == weight.size(0)));
}

template <class Pass>
void run_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& y) {
  const int64_t in = weight.size(1), out = weight.size(0);
  const Pass pass{const_elements_of<float>(x),
                  const_elements_of<float>(weight),
                  const_elements_of<float>(bias),
                  elements_of<float>(y),
                  x.numel() / in,
                  in,
                  out};
  run_pass(pass, out, in);
}

}  // namespace

FewRowsScope::FewRowsScope() : before_(std::exchange(takes_few_rows, true)) {}
FewRowsScope::~FewRowsScope() { takes_few_rows = before_; }

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!are_few_rows(x, weight, bias)) return at::linear(x, weight, bias);
  const at::Tensor rows = x.contiguous();
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const at::Tensor y = at::empty(sizes, x.options());
  weight.is_contiguous() ? run_linear<LinearPass>(rows, weight, bias, y)
                         : run_linear<TransposedLinearPass>(rows, weight, bias, y);
  return y;
}

}  // namespace zero

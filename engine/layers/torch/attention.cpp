#include <cmath>

#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Queries [begin, end) of rows [row, row + num_rows), and the first key that one of them
// sees. A causal one sees all of its keys up to each query; of any other each query sees
// a whole window.
struct Stretch {
  int64_t row, num_rows, begin, end, keys;
  bool is_causal;
};

// Fewer queries read more keys in vain less, and cost more calls.
int64_t queries_at_once(int64_t window) {
  return std::clamp<int64_t>(window / 2, 64, 256);
}

// Of [begin, end) of these rows: a document, or rows that are one.
void add_stretches(int64_t row, int64_t num_rows, int64_t begin, int64_t end,
                   int64_t window, std::vector<Stretch>& stretches) {
  if (begin == end) return;
  const int64_t first = window > 0 ? std::min(end, begin + window) : end;
  stretches.push_back({row, num_rows, begin, first, begin, true});
  const int64_t step = queries_at_once(window);
  for (int64_t at = first; at < end; at += step)
    stretches.push_back(
        {row, num_rows, at, std::min(end, at + step), at - window + 1, false});
}

std::vector<Stretch> stretches_of(const at::Tensor& q, const at::Tensor& ends,
                                  int64_t window) {
  const int64_t rows = q.size(0), length = q.size(2);
  std::vector<Stretch> stretches;
  if (!ends.defined()) {
    add_stretches(0, rows, 0, length, window, stretches);
    return stretches;
  }
  const auto end_of = ends.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t begin = 0, i = 0; i < ends.size(1); begin = end_of[row][i++])
      add_stretches(row, 1, begin, end_of[row][i], window, stretches);
  }
  return stretches;
}

// Added to the scores of `rows` queries and the keys that they see: query i sees the keys
// [i, i + window).
at::Tensor band_mask(int64_t rows, int64_t window, const at::TensorOptions& options) {
  const at::Tensor hidden = at::full({rows, rows + window - 1}, -INFINITY, options);
  return hidden.tril(-1) + hidden.triu(window);
}

// Attention stretch by stretch, by LibTorch's kernels for CPUs.
class Stretches {
 public:
  Stretches(const at::Tensor& q, const at::Tensor& ends, int64_t window)
      : window_(window), stretches_(stretches_of(q, ends, window)) {
    if (!std::ranges::all_of(stretches_, &Stretch::is_causal))
      mask_ = band_mask(queries_at_once(window), window, q.options());
  }

  auto begin() const { return stretches_.begin(); }
  auto end() const { return stretches_.end(); }

  // x (B, H, T, ...) of its queries, and of the keys that they see.
  static at::Tensor queries(const at::Tensor& x, const Stretch& stretch) {
    return part(x, stretch, stretch.begin);
  }
  static at::Tensor keys(const at::Tensor& x, const Stretch& stretch) {
    return part(x, stretch, stretch.keys);
  }

  std::optional<at::Tensor> mask(const Stretch& stretch) const {
    if (stretch.is_causal) return std::nullopt;
    const int64_t rows = stretch.end - stretch.begin;
    return mask_.narrow(0, 0, rows).narrow(1, 0, rows + window_ - 1);
  }

 private:
  static at::Tensor part(const at::Tensor& x, const Stretch& stretch, int64_t begin) {
    return x.narrow(0, stretch.row, stretch.num_rows)
        .narrow(2, begin, stretch.end - begin);
  }

  const int64_t window_;
  const std::vector<Stretch> stretches_;
  at::Tensor mask_;  // of as many queries as a stretch has at most
};

// (B, H, T, ...), beside each other as (B, T, H, ...)
at::Tensor empty_heads(at::IntArrayRef sizes, const at::TensorOptions& options) {
  std::vector<int64_t> lying(sizes.begin(), sizes.end());
  std::swap(lying[1], lying[2]);
  return at::empty(lying, options).transpose(1, 2);
}

struct Attended {
  at::Tensor values;  // (B, H, T, D)
  at::Tensor sums;    // (B, H, T): logarithms of the sums of exponentials
};

Attended attend_by_stretches(const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v, const Stretches& stretches) {
  const Attended all{empty_heads(q.sizes(), q.options()),
                     empty_heads(q.sizes().slice(0, 3), q.options().dtype(wide_type(q)))};
  for (const Stretch& each : stretches) {
    const auto [values, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        Stretches::queries(q, each), Stretches::keys(k, each), Stretches::keys(v, each),
        /*dropout_p=*/0, each.is_causal, stretches.mask(each));
    Stretches::queries(all.values, each).copy_(values);
    Stretches::queries(all.sums, each).copy_(sums);
  }
  return all;
}

at::Tensor with_dense_heads(const at::Tensor& x) {
  return x.stride(-1) == 1 ? x : x.contiguous();
}

// Of q, k and v. Keys that several stretches see add up in fp32 at least.
variable_list gradients_by_stretches(const at::Tensor& given, const at::Tensor& q,
                                     const at::Tensor& k, const at::Tensor& v,
                                     const Attended& all, const Stretches& stretches) {
  const at::Tensor grad = with_dense_heads(given), q_grad = at::empty_like(q);
  const at::Tensor k_sum = at::zeros(k.sizes(), k.options().dtype(wide_type(k)));
  const at::Tensor v_sum = at::zeros_like(k_sum);
  for (const Stretch& each : stretches) {
    const auto [of_q, of_k, of_v] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            Stretches::queries(grad, each), Stretches::queries(q, each),
            Stretches::keys(k, each), Stretches::keys(v, each),
            Stretches::queries(all.values, each), Stretches::queries(all.sums, each),
            /*dropout_p=*/0, each.is_causal, stretches.mask(each));
    Stretches::queries(q_grad, each).copy_(of_q);
    Stretches::keys(k_sum, each).add_(of_k);
    Stretches::keys(v_sum, each).add_(of_v);
  }
  return {q_grad, k_sum.to(k.scalar_type()), v_sum.to(v.scalar_type())};
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& some_ends, int64_t window) {
    const at::Tensor ends = some_ends.value_or(at::Tensor());
    const Attended all = attend_by_stretches(q, k, v, Stretches(q, ends, window));
    context->saved_data["window"] = window;
    context->save_for_backward({q, k, v, ends, all.values, all.sums});
    return all.values;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &ends = saved[3];
    const int64_t window = context->saved_data["window"].toInt();
    variable_list grads =
        torch::GradMode::is_enabled() || !are_plain({grad[0]})
            ? expression_gradients({q, k, v}, grad[0],
                                   [&](const variable_list& in) {
                                     return eager::causal_attention(in[0], in[1], in[2],
                                                                    ends, window,
                                                                    /*dropout=*/0);
                                   })
            : gradients_by_stretches(grad[0], q, k, v, {saved[4], saved[5]},
                                     Stretches(q, ends, window));
    grads.resize(5);  // of ends and window: none
    return grads;
  }
};

at::Tensor attend_on_host(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& ends, int64_t window) {
  if (!torch::autograd::compute_requires_grad(q, k, v))
    return attend_by_stretches(q, k, v, Stretches(q, ends, window)).values;
  return AttentionFunction::apply(q, k, v, maybe(ends), window);
}

// By the kernels that LibTorch has for GPUs. Those for longer heads are not for all GPUs.
bool flash_takes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  constexpr int64_t kMaxHeadDim = 192;
  const bool has_16_bits =
      q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  return !q.is_cpu() && has_16_bits && q.size(-1) % 8 == 0 && q.size(-1) <= kMaxHeadDim &&
         passes_take({q, k, v});
}

// Where documents of all rows begin, one behind the other, and where the last one ends.
struct Packs {
  std::vector<int> begins = {0};
  int64_t longest = 0;
};

Packs packs_of(const at::Tensor& ends, int64_t length) {
  Packs packs;
  const auto end_of = ends.accessor<int64_t, 2>();
  for (int64_t row = 0; row < ends.size(0); ++row) {
    for (int64_t i = 0; i < ends.size(1); ++i) {
      const int64_t end = row * length + end_of[row][i], begin = packs.begins.back();
      if (end == begin) continue;
      packs.begins.push_back(static_cast<int>(end));
      packs.longest = std::max(packs.longest, end - begin);
    }
  }
  return packs;
}

at::Tensor attend_on_gpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& ends, int64_t window, double dropout) {
  const auto lying = [&](const at::Tensor& x) {  // (B, T, H, D), or (B T, H, D)
    const at::Tensor tokens = with_dense_heads(x).transpose(1, 2);
    return ends.defined() ? tokens.flatten(0, 1) : tokens;
  };
  const int64_t left = window - 1;  // keys before the query's own; -1: all
  std::optional<at::Tensor> begins;
  int64_t longest = q.size(2);
  if (ends.defined()) {
    const Packs packs = packs_of(ends, q.size(2));
    begins = at::tensor(packs.begins, at::kInt).to(q.device(), /*non_blocking=*/true);
    longest = packs.longest;
  }
  const at::Tensor found = std::get<0>(at::_flash_attention_forward(
      lying(q), lying(k), lying(v), begins, begins, longest, longest, dropout,
      /*is_causal=*/true, /*return_debug_mask=*/false, /*scale=*/{}, left,
      /*window_size_right=*/0));
  return found.view({q.size(0), q.size(2), q.size(1), q.size(3)}).transpose(1, 2);
}

void require_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   int64_t window) {
  const bool fit = q.dim() == 4 && k.sizes() == v.sizes() && k.dim() == 4 &&
                   k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
                   k.size(3) == q.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  TORCH_CHECK_VALUE(fit, "queries of ", q.sizes(), ", keys of ", k.sizes(),
                    " and values of ", v.sizes(),
                    " do not fit: (B, H, T, D), and twice (B, Hk, T, D), where Hk "
                    "divides H");
  TORCH_CHECK_VALUE(window >= 0, "a window of ", window, " keys; 0 shows all");
}

// Are there more documents than rows?
bool has_packs(const at::Tensor& ends, int64_t rows, int64_t length) {
  TORCH_CHECK_VALUE(ends.dim() == 2 && ends.size(0) == rows && ends.size(1) > 0 &&
                        ends.is_cpu() && ends.scalar_type() == at::kLong,
                    "ends of documents are int64 numbers of the host, some for each of ",
                    rows, " rows; these are ", ends.toString(), " ", ends.sizes());
  bool has = false;
  const auto end_of = ends.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t last = 0;
    for (int64_t i = 0; i < ends.size(1); last = end_of[row][i++])
      TORCH_CHECK_VALUE(end_of[row][i] >= last, "in row ", row, " a document ends at ",
                        end_of[row][i], ", behind one that ends at ", last);
    TORCH_CHECK_VALUE(last == length, "in row ", row, " the last document ends at ", last,
                      ", not at ", length);
    has = has || end_of[row][0] < length;
  }
  return has;
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double dropout) {
  return causal_attention(q, k, v, at::Tensor(), window, dropout);
}

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& document_ends, int64_t window,
                            double dropout) {
  require_heads(q, k, v, window);
  const int64_t rows = q.size(0), length = q.size(2);
  const at::Tensor ends =
      document_ends.defined() && has_packs(document_ends, rows, length) ? document_ends
                                                                        : at::Tensor();
  const int64_t seen = window < length ? window : 0;
  if (seen > 0 || ends.defined()) {
    if (dropout == 0 && are_plain({q, k, v}))
      return attend_on_host(with_dense_heads(q), with_dense_heads(k), with_dense_heads(v),
                            ends, seen);
    if (flash_takes(q, k, v)) return attend_on_gpu(q, k, v, ends, seen, dropout);
  }
  return eager::causal_attention(q, k, v, ends, seen, dropout);
}

}  // namespace zero

#include "zero/key_values.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/no_copy.h"
#include "engine/layers/torch/passes.h"
#include "zero/errors.h"
#include "zero/layers.h"

namespace zero {
namespace {

constexpr int64_t kLeastCapacity = 64;

// The queries (B, H, T, D) of a group lie one behind the other, so that the keys and
// values (B, Hk, n, D) which they share are read as they are.
at::Tensor attend_to(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& mask) {
  const int64_t group = q.size(1) / k.size(1), length = q.size(2);
  const at::Tensor queries = q.reshape({q.size(0), k.size(1), group * length, q.size(3)});
  return at::scaled_dot_product_attention(queries, k, v, maybe(mask)).reshape(q.sizes());
}

// cuDNN's attention, which LibTorch prefers on GPUs of sm_90, plans each number of keys
// anew, and takes tens of milliseconds for it.
class WithoutPlans : NoCopy {
 public:
  WithoutPlans() : was_on_(at::globalContext().userEnabledCuDNNSDP()) {
    at::globalContext().setSDPUseCuDNN(false);
  }
  ~WithoutPlans() { at::globalContext().setSDPUseCuDNN(was_on_); }

 private:
  const bool was_on_;
};

// (rows, n) int64 on the host.
at::Tensor table(int64_t rows, int64_t n, auto&& value) {
  const at::Tensor made = torch::empty({rows, n}, torch::kLong);
  auto to = made.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i) to[row][i] = value(row, i);
  return made;
}

}  // namespace

KeyValues::KeyValues(int64_t rows, int64_t layers)
    : lengths_(rows, 0), counts_(rows, 0), layers_(layers) {}

int64_t KeyValues::longest() const { return *std::ranges::max_element(lengths_); }

int64_t KeyValues::num_bytes() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_)
    if (layer.keys.defined())
      bytes += static_cast<int64_t>(layer.keys.nbytes() + layer.values.nbytes());
  return bytes;
}

void KeyValues::begin(std::span<const int64_t> counts, int64_t length) {
  const bool fit =
      std::ssize(counts) == rows() && length > 0 &&
      std::ranges::all_of(counts, [&](int64_t n) { return n >= 0 && n <= length; });
  if (!fit)
    throw Error(ExitCode::kUsage, "counts of tokens that do not fit the rows to be read",
                "KeyValues::begin", "a number from 0 to length for each row");
  counts_.assign(counts.begin(), counts.end());
  length_ = length;
  masks_.clear();
}

void KeyValues::end() {
  for (size_t row = 0; row < lengths_.size(); ++row) lengths_[row] += counts_[row];
}

at::Tensor KeyValues::places() const {
  return table(rows(), length_,
               [&](int64_t row, int64_t i) { return lengths_[row] + i; });
}

at::Tensor KeyValues::last_tokens() const {
  return table(
             rows(), 1,
             [&](int64_t row, int64_t) { return std::max<int64_t>(0, counts_[row] - 1); })
      .flatten();
}

bool KeyValues::are_even() const {
  return std::ranges::all_of(lengths_, [&](int64_t n) { return n == lengths_[0]; }) &&
         std::ranges::all_of(counts_, [&](int64_t n) { return n == length_; });
}

bool KeyValues::is_ring(int64_t window) const {
  return window > 0 && end_of_places() > window;
}

// Until the new tokens have room, or the window has.
void KeyValues::grow(Layer& layer, int64_t window, const at::Tensor& like) const {
  const int64_t most = window > 0 ? window : std::numeric_limits<int64_t>::max();
  const int64_t has = layer.keys.defined() ? layer.keys.size(2) : 0;
  if (has >= std::min(most, end_of_places())) return;
  int64_t wanted = std::max({end_of_places(), 2 * has, kLeastCapacity});
  if (most_ > 0) wanted = std::max(end_of_places(), std::min(most_, wanted));
  wanted = std::min(most, wanted);
  for (at::Tensor* part : {&layer.keys, &layer.values}) {
    // What was never written is hidden by masks, and must be finite.
    const at::Tensor larger =
        at::zeros({like.size(0), like.size(1), wanted, like.size(3)}, like.options());
    if (has > 0) larger.narrow(2, 0, has).copy_(*part);
    *part = larger;
  }
}

// Of a ring the place p is in slot p modulo the window.
void KeyValues::write(Layer& layer, const at::Tensor& k, const at::Tensor& v,
                      int64_t window) {
  const int64_t first = lengths_[0];
  if (are_even() && (!is_ring(window) || length_ == 1)) {
    const int64_t slot = is_ring(window) ? first % window : first;
    layer.keys.narrow(2, slot, length_).copy_(k);
    layer.values.narrow(2, slot, length_).copy_(v);
    return;
  }
  std::vector<int64_t> row_of, slot_of, token_of;
  for (int64_t row = 0; row < rows(); ++row) {
    const int64_t begin = window > 0 ? std::max<int64_t>(0, counts_[row] - window) : 0;
    for (int64_t i = begin; i < counts_[row]; ++i) {
      const int64_t place = lengths_[row] + i;
      row_of.push_back(row);
      slot_of.push_back(window > 0 ? place % window : place);
      token_of.push_back(i);
    }
  }
  if (row_of.empty()) return;
  const auto index = [&](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).to(k.device());
  };
  const at::Tensor in_rows = index(row_of), in_slots = index(slot_of),
                   tokens = index(token_of);
  for (const auto& [to, from] : {std::pair(&layer.keys, &k), {&layer.values, &v}})
    to->transpose(1, 2).index_put_({in_rows, in_slots},
                                   from->transpose(1, 2).index({in_rows, tokens}));
}

at::Tensor KeyValues::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v, int64_t window) {
  const WithoutPlans without_plans;
  Layer& own = layers_.at(layer);
  const bool is_first = longest() == 0;
  if (is_first || (is_ring(window) && length_ > 1)) {
    // Whatever stands behind a row's tokens is seen by none of them.
    const at::Tensor found = is_first ? causal_attention(q, k, v, window)
                                      : attend_behind(own, q, k, v, window);
    grow(own, window, k);
    write(own, k, v, window);
    return found;
  }
  return attend_in_place(own, q, k, v, window);
}

at::Tensor KeyValues::places_in_ring(int64_t window, int64_t slots, int64_t more) const {
  return table(rows(), slots, [&](int64_t row, int64_t slot) {
    const int64_t last = lengths_[row] + more - 1;
    const int64_t place = last - (((last - slot) % window) + window) % window;
    return last < 0 || place < 0 ? -1 : place;
  });
}

at::Tensor KeyValues::mask_of(const at::Tensor& places_of_keys, int64_t window,
                              const at::Tensor& q, int64_t group) const {
  const at::Tensor of_queries = places().unsqueeze(2);     // (B, T, 1)
  const at::Tensor of_keys = places_of_keys.unsqueeze(1);  // (B, 1, n)
  at::Tensor seen = (of_keys >= 0).logical_and(of_keys <= of_queries);
  if (window > 0) seen = seen.logical_and(of_keys > of_queries - window);
  const at::Tensor mask =
      torch::zeros(seen.sizes(), torch::kFloat32)
          .masked_fill(seen.logical_not(), -std::numeric_limits<float>::infinity());
  return mask.unsqueeze(1)
      .to(q.options())
      .expand({-1, group, -1, -1})
      .reshape({mask.size(0), 1, group * mask.size(1), mask.size(2)});
}

// Keys are written first, and then read where they lie.
at::Tensor KeyValues::attend_in_place(Layer& layer, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      int64_t window) {
  const bool wraps = is_ring(window);
  const int64_t slots = wraps ? window : end_of_places();
  grow(layer, window, k);
  write(layer, k, v, wraps ? window : 0);
  const int64_t group = q.size(1) / k.size(1);
  at::Tensor& mask = masks_[{window, group, q.scalar_type()}];
  if (!mask.defined() && !(are_even() && length_ == 1)) {
    // A ring has the new token of each row.
    const at::Tensor of_keys =
        wraps ? places_in_ring(window, slots, 1)
              : table(rows(), slots, [](int64_t, int64_t slot) { return slot; });
    mask = mask_of(of_keys, window, q, group);
  }
  return attend_to(q, layer.keys.narrow(2, 0, slots), layer.values.narrow(2, 0, slots),
                   mask);
}

// What the ring had, and behind it what is new.
at::Tensor KeyValues::attend_behind(Layer& layer, const at::Tensor& q,
                                    const at::Tensor& k, const at::Tensor& v,
                                    int64_t window) {
  const int64_t slots = std::min(layer.keys.size(2), window);
  const int64_t group = q.size(1) / k.size(1);
  at::Tensor& mask = masks_[{window, group, q.scalar_type()}];
  if (!mask.defined()) {
    const at::Tensor of_keys = at::cat({places_in_ring(window, slots, 0), places()}, 1);
    mask = mask_of(of_keys, window, q, group);
  }
  const auto all = [&](const at::Tensor& old, const at::Tensor& more) {
    return at::cat({old.narrow(2, 0, slots), more}, 2);
  };
  return attend_to(q, all(layer.keys, k), all(layer.values, v), mask);
}

}  // namespace zero

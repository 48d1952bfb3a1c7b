#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace zero {

// What the attention of each layer has read of a batch of texts, so that a model reads
// every token once: keys and values, in their type and where they are computed.
//
//   KeyValues read(rows, layers);
//   read.begin(counts, length);  // (rows, length) tokens come, of which a row has a count
//   ...                          // the model's forward: places(), attend() in each layer
//   read.end();
//
// A layer with a window keeps the last `window` tokens alone. Memory grows by doubling,
// up to what expect_at_most() says.
class KeyValues {
 public:
  KeyValues(int64_t rows, int64_t layers);

  // No row gets more tokens than these, its prompt's included.
  void expect_at_most(int64_t tokens) { most_ = tokens; }

  int64_t rows() const { return static_cast<int64_t>(lengths_.size()); }
  // How many tokens of each row were read.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t longest() const;
  int64_t num_bytes() const;

  // Rows have `counts` tokens of the `length` that come, the others stand behind them and
  // are not read. Throws Error(kUsage) for other numbers.
  void begin(std::span<const int64_t> counts, int64_t length);
  // The place of each of them in its text: (rows, length) int64, on the host.
  at::Tensor places() const;
  // Which of them is the last that each row has: (rows) int64, on the host.
  at::Tensor last_tokens() const;
  // Behind the last of these places.
  int64_t end_of_places() const { return longest() + length_; }
  // causal_attention() of a layer's new queries (B, H, T, D) over all that was read and
  // their own keys and values (B, Hk, T, D), which are read from now on.
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, int64_t window);
  void end();

 private:
  struct Layer {
    at::Tensor keys, values;  // (B, Hk, capacity, D)
  };

  bool are_even() const;  // are all rows as long, and get as many tokens?
  bool is_ring(int64_t window) const;
  void grow(Layer& layer, int64_t window, const at::Tensor& like) const;
  void write(Layer& layer, const at::Tensor& k, const at::Tensor& v, int64_t window);
  at::Tensor attend_in_place(Layer& layer, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v, int64_t window);
  at::Tensor attend_behind(Layer& layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, int64_t window);
  // Of keys at such places (rows, n), -1: none; (rows, 1, group T, n), where -inf is what
  // a query does not see.
  at::Tensor mask_of(const at::Tensor& places_of_keys, int64_t window,
                     const at::Tensor& q, int64_t group) const;
  // Of a ring's keys, where each row has read `more` than its length: (rows, slots).
  at::Tensor places_in_ring(int64_t window, int64_t slots, int64_t more) const;

  std::vector<int64_t> lengths_, counts_;
  int64_t length_ = 0, most_ = 0;  // 0: who knows
  std::vector<Layer> layers_;
  // Of this forward, for layers that have one window, size of groups and type.
  std::map<std::tuple<int64_t, int64_t, at::ScalarType>, at::Tensor> masks_;
};

}  // namespace zero

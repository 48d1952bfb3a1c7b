#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace zero::data {

// Items in rows: those of row i are order[begins[i]] to order[begins[i + 1] - 1].
struct Packing {
  std::vector<int64_t> order, begins;

  int64_t num_rows() const { return std::ssize(begins) - 1; }
  std::span<const int64_t> row(int64_t i) const {
    return {order.data() + begins[i], order.data() + begins[i + 1]};
  }
};

// Items 0, 1, ... of these lengths, each at most `length`, in as few rows of it as best
// fit decreasing finds: the longest first, each into the fullest row that has room. Rows
// and what is in one come in the order of their first items. The same at each call.
// Source: Johnson, "Near-optimal bin packing algorithms", MIT 1973.
Packing pack_best_fit(std::span<const int64_t> lengths, int64_t length);

// A row for each item.
Packing pack_alone(int64_t num_items);

}  // namespace zero::data

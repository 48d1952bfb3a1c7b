#include "launcher/data/packing.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

namespace zero::data {

Packing pack_best_fit(std::span<const int64_t> lengths, int64_t length) {
  std::vector<int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::ranges::stable_sort(longest_first, std::greater(),
                           [&](int64_t item) { return lengths[item]; });
  std::vector<int64_t> row_of(lengths.size());
  std::map<int64_t, std::vector<int64_t>> rows_by_room;
  int64_t num_rows = 0;
  for (const int64_t item : longest_first) {
    assert(lengths[item] <= length);
    const auto best = rows_by_room.lower_bound(lengths[item]);
    int64_t row = num_rows, room = length;
    if (best == rows_by_room.end()) {
      ++num_rows;
    } else {
      room = best->first;
      row = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) rows_by_room.erase(best);
    }
    row_of[item] = row;
    if (room > lengths[item]) rows_by_room[room - lengths[item]].push_back(row);
  }
  // Rows by their first items.
  std::vector<int64_t> place(num_rows, -1);
  std::vector<int64_t> count;
  for (int64_t& row : row_of) {
    if (place[row] < 0) {
      place[row] = std::ssize(count);
      count.push_back(0);
    }
    row = place[row];
    ++count[row];
  }
  Packing packing{std::vector<int64_t>(lengths.size()),
                  std::vector<int64_t>(num_rows + 1, 0)};
  std::partial_sum(count.begin(), count.end(), packing.begins.begin() + 1);
  std::vector<int64_t> next(packing.begins.begin(), packing.begins.end() - 1);
  for (int64_t item = 0; item < std::ssize(row_of); ++item)
    packing.order[next[row_of[item]]++] = item;
  return packing;
}

Packing pack_alone(int64_t num_items) {
  Packing packing{std::vector<int64_t>(num_items), std::vector<int64_t>(num_items + 1)};
  std::iota(packing.order.begin(), packing.order.end(), 0);
  std::iota(packing.begins.begin(), packing.begins.end(), 0);
  return packing;
}

}  // namespace zero::data

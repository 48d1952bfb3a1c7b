#include "engine/plan/deal_gpus.h"

#include <functional>

namespace zero {
namespace {

// How many ranks each GPU has, and may have.
class Loads {
 public:
  Loads(int num_ranks, int num_gpus)
      : ranks_of_(num_gpus),
        least_(num_ranks / num_gpus),
        num_fuller_(num_ranks % num_gpus) {}

  // The first of those that have fewest, and may have another rank; -1: none.
  int take(const std::function<bool(int gpu)>& suits) {
    int best = -1;
    for (int gpu = 0; gpu < std::ssize(ranks_of_); ++gpu) {
      if (suits(gpu) && has_room(gpu) && (best < 0 || ranks_of_[gpu] < ranks_of_[best]))
        best = gpu;
    }
    if (best < 0) return best;
    if (ranks_of_[best] == least_) --num_fuller_;
    ++ranks_of_[best];
    return best;
  }

 private:
  bool has_room(int gpu) const {
    return ranks_of_[gpu] < least_ || (ranks_of_[gpu] == least_ && num_fuller_ > 0);
  }

  std::vector<int> ranks_of_;
  const int least_;
  int num_fuller_;  // so many may have one more than that
};

}  // namespace

std::vector<int> deal_gpus(const std::vector<int>& rank_nodes,
                           const std::vector<int>& gpu_nodes) {
  Loads loads(static_cast<int>(rank_nodes.size()), static_cast<int>(gpu_nodes.size()));
  std::vector<int> gpus;
  for (const int node : rank_nodes)
    gpus.push_back(
        loads.take([&](int gpu) { return node >= 0 && gpu_nodes[gpu] == node; }));
  for (int& gpu : gpus) {
    if (gpu < 0) gpu = loads.take([](int) { return true; });
  }
  return gpus;
}

}  // namespace zero

#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "zero/reports.h"

namespace zero::launcher {

// What of a stretch of time each kind of work took. Streams work beside one another: the
// sum may be more than 1.
struct Shares {
  double compute = 0, waiting = 0;  // of the stream that computes
  double weights = 0, gradients = 0, optimizer = 0;
  double saves = 0;  // updates waited for one
  // Threads of this process that were ready to run and had no core, for each core that it
  // may use: other processes had it, or threads of this one.
  double without_core = 0;
};

// Nothing where no time went by.
Shares shares_of(const StreamSeconds& busy, double seconds);

// Of many steps: the longer one counts for more.
class MeanShares {
 public:
  void add(const Shares& shares, double seconds);
  bool has_any() const { return seconds_ > 0; }
  Shares mean() const { return shares_of(sum_, seconds_); }

 private:
  StreamSeconds sum_;
  double seconds_ = 0;
};

// What a step would have to do faster to be faster.
enum class Bound { kCompute, kWeights, kGradients, kOptimizer, kSaves, kData, kCores };

// What is busy for the longest time: what overlaps hides behind it. Where the stream that
// computes waits for a fifth of the time, what else is, if that is longer than the wait.
// Cores where threads wait for one for an eighth of the time; data where the stream that
// computes is neither busy nor waiting for half of it.
Bound bound_by(const Shares& shares);

// "gpu 71% h2d 22% adam 7%", or "cpu 96% gather 3% adam 4% save 9%"; kinds of less than half a
// percent are left out.
std::string to_text(const Shares& shares, bool on_gpu);

// "bound by: weights on their way to the GPU (gpu 45% h2d 93% adam 7%, waiting 50%); a
// larger --micro-batch, ...", or compute, which has no such cure.
std::string bound_sentence(const Shares& shares, bool on_gpu);

// Of seconds in which threads waited for a core, in a time on so many cores: at least 0.
double share_of_cores(double without_core, double seconds, double cores);

// How long this process's threads wait for cores that are taken.
class CoreWatch {
 public:
  CoreWatch();

  // A warning, once, where that was a quarter of the time since the last look; looks
  // every ten seconds.
  std::optional<std::string> look();
  double share() const;  // of the time since the beginning

 private:
  struct Point {
    std::chrono::steady_clock::time_point time;
    double without_core = 0;
  };
  static Point now();
  static double share_between(const Point& from, const Point& to);

  const Point begin_;
  Point last_;
  bool has_warned_ = false;
};

}  // namespace zero::launcher

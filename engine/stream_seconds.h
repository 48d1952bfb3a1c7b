#pragma once

namespace zero {

// How long one rank's streams were at what they do. They work beside one another: the sum
// may be more than the time that went by.
struct StreamSeconds {
  // The compute stream in forwards and backwards, where it does not wait.
  double compute = 0;
  // The compute stream, for weights, for room for gradients, and in step().
  double waiting = 0;
  // Weights on their way into the gather ring, gradients on theirs out of the gradient
  // ring; a collective's time includes that for which it waits for other ranks.
  double weights = 0, gradients = 0;
  double optimizer = 0;
};

inline StreamSeconds operator-(const StreamSeconds& a, const StreamSeconds& b) {
  return {a.compute - b.compute, a.waiting - b.waiting, a.weights - b.weights,
          a.gradients - b.gradients, a.optimizer - b.optimizer};
}

}  // namespace zero

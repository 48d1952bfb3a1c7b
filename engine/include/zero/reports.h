#pragma once
#include <cstdint>
#include <string>
#include <vector>

// Small values that an Engine returns.
namespace zero {

// What one update did. The same on every rank.
struct StepReport {
  int64_t step = 0;         // updates finished so far, this one included
  double loss = 0;          // sum over all targets of the global batch / their number
  int64_t num_targets = 0;  // of the global batch
  double grad_norm = 0;     // of the mean gradient, before clipping
  double clip_coef = 1;     // what the gradient was multiplied with
  double lr = 0;
  // What the loss was multiplied with in backward; the numbers here are without it. 0:
  // nothing, as the dtype is not fp16.
  int64_t loss_scale = 0;
  // Units whose update was made during the backward (Options::speculate_bytes), and of
  // them those where that was the update of this step.
  int num_drafts = 0, num_drafts_taken = 0;
  // Loss or gradient was not finite: nothing was changed, step did not advance. In fp16
  // that is usual now and then; the next step has a smaller scale.
  bool skipped = false;
  // FQN of the first parameter with a non-finite gradient, or "loss".
  std::string first_bad;
};

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
  // Updates waited until a save had read what they write.
  double saves = 0;
};

inline StreamSeconds operator-(const StreamSeconds& a, const StreamSeconds& b) {
  return {a.compute - b.compute,     a.waiting - b.waiting,     a.weights - b.weights,
          a.gradients - b.gradients, a.optimizer - b.optimizer, a.saves - b.saves};
}

// Bytes that one rank moved for its weights and gradients. What becomes of activations
// stands in OffloadedBytes.
struct Traffic {
  // Between a GPU's memory and the host's, both ways; nothing where the host computes.
  int64_t to_device = 0, from_device = 0;
  // Of weights, in all-gathers: what this rank got of the other ranks' shards.
  int64_t gathered = 0;
  // Of gradients, in reduce-scatters: what this rank gave of its own to the other ranks,
  // in the type that travels.
  int64_t reduced = 0;
  // Of both, what came from or went to ranks of other hosts.
  int64_t across = 0;

  bool operator==(const Traffic&) const = default;
};

inline Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.to_device - b.to_device, a.from_device - b.from_device,
          a.gathered - b.gathered, a.reduced - b.reduced, a.across - b.across};
}

// What became of the inputs of units that an engine keeps in the host's memory until
// their backward (Options::offload_activations).
struct OffloadedBytes {
  int64_t out = 0;     // copied to the host so far
  int64_t back = 0;    // copied back to the device so far
  int64_t pinned = 0;  // held by the host's pool, in use or not; it does not shrink
};

// Calls whose inputs are on the device as well: of the last ones in forward, until later
// ones take their place; in backward, of the one that runs and the one that is next.
constexpr int kNumResidentCalls = 2;

// How a parameter or buffer started. Numbers do not depend on how many ranks there are.
struct InitEntry {
  std::string fqn = "";
  bool is_buffer = false;
  // "function of h.0", "rule *.bias", "constructor", "rank 0", "every rank"
  std::string who = "";
  // "normal(0, 0.02)"; "" where elements follow from each other, or from a file
  std::string distribution = "";
  int64_t numel = 0;
  double mean = 0, std = 0;      // of all elements, exact sums; infinite ones left out
  uint64_t checksum = 0;         // of each element's place and value
  int64_t num_infinite = 0;      // of a buffer
  bool after_post_init = false;  // post_init wrote it again; numbers are those of before
};

// What the updates of a parameter have seen and done so far.
struct ParamMovement {
  std::string fqn;
  bool had_gradient = false;  // another than 0
  bool moved = false;         // a bit of its fp32 master changed
};

// What one of Options::groups holds for; the last one of a list is all others.
struct GroupShare {
  int64_t num_parameters = 0;
  int64_t numel = 0;
};

// What an engine allocates, by owner.
struct MemoryEntry {
  std::string owner;  // "masters", "exp_avg", "gather ring", ...
  std::string tier;   // "host" or "device"
  int64_t bytes = 0;
};

}  // namespace zero

#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace zero {

// The seed of one forward of the model: the `number`-th since the last backward, or, one
// without gradients, since the last step. A forward without gradients changes nothing
// about those of others.
uint64_t forward_seed(uint64_t seed, int64_t num_steps, uint64_t micro_batch,
                      bool has_gradients, uint64_t number);

// Seed torch's default generators, of the CPU and of the device that units compute on,
// for the length of a call, and give the caller their states back afterwards.
//
// The seed is a function of the enclosing call's seed, the FQN and how often that call
// has called this FQN: the same on any rank, with any wrapping, and again when a unit is
// recomputed. Scopes nest; they belong to one thread. The generators belong to the whole
// process: end_state() tells whether somebody else drew from them.
class CallSeed {
 public:
  // Inside another scope that draws; without one the generators are left alone.
  explicit CallSeed(const std::string& fqn);
  // The outermost scope, or a recomputed one: from a given seed. When `draws` is false
  // the generators are left alone here and inside.
  explicit CallSeed(uint64_t seed, bool draws = true, c10::Device device = c10::kCPU);
  ~CallSeed();
  CallSeed(const CallSeed&) = delete;
  CallSeed& operator=(const CallSeed&) = delete;

  uint64_t seed() const;
  bool draws() const;
  // A fingerprint of the generators' states now: equal after equal draws from this seed.
  // 0 when nothing is drawn here, or when ranks are threads that share them.
  uint64_t end_state() const;

 private:
  struct Scope;
  void enter(uint64_t seed, bool draws, c10::Device device);
  Scope* scope_ = nullptr;
};

}  // namespace zero

#pragma once
#include <cstdint>
#include <string>

namespace zero {

// Seed torch's default CPU generator for the length of a call, and give the caller its
// state back afterwards.
//
// The seed is a function of the enclosing call's seed, the FQN and how often that call
// has called this FQN: the same on any rank, with any wrapping, and again when a unit is
// recomputed. Scopes nest; they belong to one thread.
class CallSeed {
 public:
  // Inside another scope; without one, or when `draws` is false (evaluation), the
  // generator is left alone.
  CallSeed(const std::string& fqn, bool draws);
  // The outermost scope, or a recomputed one: from a given seed.
  explicit CallSeed(uint64_t seed, bool draws = true);
  ~CallSeed();
  CallSeed(const CallSeed&) = delete;
  CallSeed& operator=(const CallSeed&) = delete;

  uint64_t seed() const;
  bool draws() const;

 private:
  struct Scope;
  void enter(uint64_t seed, bool draws);
  Scope* scope_ = nullptr;
};

}  // namespace zero

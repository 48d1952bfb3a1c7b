#pragma once
// From what was remembered under DeferredInit to values.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/no_copy.h"
#include "engine/init/recorded_value.h"
#include "zero/init_spec.h"

namespace zero {

// Say what deferred tensors became: random numbers are drawn for these names. A tensor
// that only led to others is named after the first that needs it.
void name_deferred(const std::vector<std::pair<std::string, at::Tensor>>& named);

// The last values of a deferred tensor where each of its elements can be told by itself:
// one draw or constant over all of it, behind which a range may have become zero.
struct RecordedSpec {
  InitSpec spec;
  std::string name;  // for fill()
};
std::optional<RecordedSpec> recorded_spec(const at::Tensor& deferred);

bool draws_random_numbers(const ValuePtr& value);

// Make values by running what was remembered, each call's random numbers from a generator
// keyed by the seed and a name. Without a seed, and for what has no name, numbers come
// from torch's default generator as it is.
//
// Calls that several values share run once, as long as the object lives. Bytes that
// nothing wrote are unwritten_byte().
class Replay {
 public:
  explicit Replay(std::optional<uint64_t> seed) : seed_(seed) {}

  // Throws Error(kUsage) with operation and name where a call cannot run now.
  c10::Storage storage_of(const ValuePtr& value);
  at::Tensor values_of(const at::Tensor& deferred);
  // Make it an ordinary tensor.
  void give_memory(const at::Tensor& deferred);

 private:
  using Key = std::pair<const void*, size_t>;  // a call and a place of it; or a value
  static Key key_of(const RecordedValue& value);
  c10::Storage start_of(const RecordedValue& value);
  c10::Storage storage_to_change(const ValuePtr& value);
  void run(const RecordedCall& call);
  void draw(const RecordedCall& call, const at::Tensor& target, torch::jit::Stack& stack);

  const std::optional<uint64_t> seed_;
  std::map<Key, c10::Storage> storages_;
};

// How many elements of a contiguous tensor nothing wrote.
int64_t num_unwritten(const at::Tensor& values);
// Did nothing write some of a tensor with memory here? A byte that nothing wrote is as
// good as any where elements have but one: those tensors have all.
bool has_unwritten(const at::Tensor& tensor);

// Seeds torch's default generator of the CPU, and gives it back as it was. One thread of
// the process at a time has it.
class SeededGenerator : NoCopy {
 public:
  explicit SeededGenerator(uint64_t seed);
  ~SeededGenerator();

 private:
  at::Tensor before_;
};

}  // namespace zero

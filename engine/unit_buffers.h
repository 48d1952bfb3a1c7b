#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zero {

// The buffers of a unit's module, which a forward may change (running means, counters).
//
// A forward counts once: a unit that is recomputed sees in backward what its forward saw,
// and leaves behind what was there before. Whether a forward changed a buffer is found
// out by comparing values: batch norm changes them without telling autograd.
class UnitBuffers {
 public:
  explicit UnitBuffers(const torch::nn::Module& module);

  // What one forward began with.
  struct Before {
    // Of each buffer that is small, or that this or an earlier forward changed: its value
    // then; undefined elsewhere.
    std::vector<at::Tensor> values;
    // Of the others, constants: a hash of the value it saw.
    std::vector<uint64_t> hashes;
  };

  // Copies of all buffers.
  std::vector<at::Tensor> copy() const;
  // What a forward that began with `copies` must be given again; copies of what no
  // forward has changed yet are let go.
  Before compare(std::vector<at::Tensor> copies);
  // FQN of the first buffer that is not what `copies` say; "" if there is none.
  std::string first_changed(const std::vector<at::Tensor>& copies) const;
  void restore(const std::vector<at::Tensor>& copies);  // undefined ones: left alone

  // While it lives, buffers are what `before` says; afterwards what they were. Throws
  // Error(kUsage), naming the buffer, if somebody else changed one since that forward.
  class Rewind {
   public:
    Rewind(UnitBuffers& buffers, const Before& before, const std::string& unit_fqn);
    ~Rewind();
    Rewind(const Rewind&) = delete;
    Rewind& operator=(const Rewind&) = delete;

   private:
    UnitBuffers& buffers_;
    std::vector<at::Tensor> now_;
  };

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  std::vector<bool> do_change_;  // small, or a forward has changed it
};

}  // namespace zero

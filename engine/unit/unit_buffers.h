#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/no_copy.h"

namespace zero {

// The buffers of a unit's modules, which a forward may change (running means, counters).
//
// A forward counts once: a unit that is recomputed sees in backward what its forward saw,
// and leaves behind what was there before. Whether a forward changed a buffer is found
// out by comparing values: batch norm changes them without telling autograd. To compare
// what is on a GPU the host would wait for it: there it is done when asked for alone, and
// autograd's versions tell the rest.
class UnitBuffers {
 public:
  explicit UnitBuffers(const std::vector<torch::nn::Module*>& modules);

  // What buffers were like when a forward began.
  struct Watch {
    std::vector<at::Tensor> values;  // copies of all that change, and of what is compared
    std::vector<uint32_t> versions;
    bool compares_values = false;
  };

  // What one forward began with.
  struct Before {
    // Of each buffer that is small, or that this or an earlier forward changed: its value
    // then; undefined elsewhere.
    std::vector<at::Tensor> values;
    // Of the others, constants: what tells whether they are still what it saw.
    std::vector<uint64_t> fingerprints;
  };

  Watch watch(bool is_first_call) const;
  // What a forward that began so must be given again; copies of what no forward has
  // changed yet are let go.
  Before learn(Watch watch);
  // FQN of the first buffer that is not what it was; "" if there is none.
  std::string first_changed(const Watch& watch) const;
  void restore(const std::vector<at::Tensor>& copies);  // undefined ones: left alone

  // While it lives, buffers are what `before` says; afterwards what they were. Throws
  // Error(kUsage), naming the buffer, if somebody else changed one since that forward.
  class Rewind : NoCopy {
   public:
    Rewind(UnitBuffers& buffers, const Before& before, const std::string& unit_fqn);
    ~Rewind();

   private:
    UnitBuffers& buffers_;
    std::vector<at::Tensor> now_;
  };

 private:
  void add(const std::string& name, const at::Tensor& buffer);
  bool has_changed(size_t i, const Watch& watch) const;

  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  std::vector<bool> do_change_;  // small, or a forward has changed it
  bool are_on_host_ = true;
};

// The same sizes and bytes, of zeros with signs and of NaN, too.
bool has_same_bytes(const at::Tensor& one, const at::Tensor& other);

}  // namespace zero

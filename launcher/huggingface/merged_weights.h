#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/huggingface/held_tensors.h"
#include "zero/lora.h"

// Adapters, added to the weights that they belong to.
namespace zero::launcher {

class MergedWeights {
 public:
  // Of layers that have adapters; none: values stay.
  MergedWeights(const HeldTensors& held, const std::vector<LoraTarget>& layers);

  // Is it one of an adapter's factors?
  bool is_factor(const std::string& fqn) const;

  // Add scale * B A, summed in fp32, to elements [begin, begin + values.size()) of a
  // parameter. One thread at a time.
  void add_to(const HeldTensor& weight, int64_t begin, std::span<float> values);

 private:
  // scale * left right, of rows (rows, r) and (r, columns).
  struct Factors {
    std::vector<float> left, right;
    int64_t r = 0;
  };
  void read_factors(const LoraTarget& layer);

  std::map<std::string, HeldTensor> tensors_;    // the factors, by name
  std::map<std::string, LoraTarget> layers_of_;  // by the name of the weight
  std::string current_;                          // whose factors these are
  Factors factors_;
};

}  // namespace zero::launcher

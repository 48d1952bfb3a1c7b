#pragma once
#include <torch/torch.h>

#include <vector>

namespace zero {

// train() or eval() of each module of a tree, to be given back for a recomputation.
class ModuleModes {
 public:
  explicit ModuleModes(torch::nn::Module& root);

  std::vector<bool> current() const;  // is it training?
  // While it lives, the modules have `modes`.
  class Scope {
   public:
    Scope(const ModuleModes& modules, const std::vector<bool>& modes);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const ModuleModes& modules_;
    const std::vector<bool> now_;
  };

 private:
  void set(const std::vector<bool>& modes) const;
  std::vector<torch::nn::Module*> modules_;  // parents before children
};

}  // namespace zero

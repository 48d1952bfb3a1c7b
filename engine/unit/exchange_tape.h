#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "base/no_copy.h"

namespace zero {

// Lives in a thread while a unit's body runs: keeps what the body gets from the other
// ranks, in the order of its calls, or gives it again where the body is recomputed.
//
// So a recomputation exchanges nothing and computes with the numbers of its forward.
// Scopes nest: one inside a recomputation keeps what that gives.
class ExchangeTape : NoCopy {
 public:
  // Of the unit of that name.
  ExchangeTape(std::vector<at::Tensor>* keeps, const std::string& unit);
  ExchangeTape(const std::vector<at::Tensor>& repeats, const std::string& unit);
  ~ExchangeTape();

  // What `exchange` returns, or returned in the forward that is recomputed. Throws
  // Error(kUsage) if that had fewer exchanges.
  static at::Tensor result_of(const std::function<at::Tensor()>& exchange);

  // Throws Error(kUsage) if the recomputation had fewer exchanges than its forward.
  void require_end() const;

 private:
  at::Tensor next(const std::function<at::Tensor()>& exchange);
  [[noreturn]] void refuse() const;

  ExchangeTape* const outer_;
  std::vector<at::Tensor>* const keeps_;          // null: nothing
  const std::vector<at::Tensor>* const repeats_;  // null in a forward
  const std::string& unit_;
  size_t num_repeated_ = 0;
};

}  // namespace zero

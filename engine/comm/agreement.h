#pragma once
#include <functional>
#include <string>

#include "zero/ranks.h"

namespace zero {

// Ranks that do something together and fail together.
class Agreement {
 public:
  // `subject` is what the ranks must agree on: with different ones, all of them throw.
  Agreement(Ranks& ranks, std::string subject)
      : ranks_(ranks), subject_(std::move(subject)) {}

  // Run `body` on this rank; then every rank throws the error of the lowest rank whose
  // body failed, if any did: an Error as it was, anything else as a FileError.
  void run(const std::function<void()>& body);

  bool is_first() const { return rank() == 0; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

 private:
  Ranks& ranks_;
  const std::string subject_;
};

}  // namespace zero

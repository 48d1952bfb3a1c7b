#pragma once

#include <cfenv>

#include "base/no_copy.h"

namespace zero {

// Give the enclosing scope round-to-nearest and honest subnormals on the calling thread.
//
// Libraries built for speed switch subnormals off on some threads only; without this
// guard the bits of a result would depend on which thread computed it. The previous state
// returns at the end.
class DefaultFloatEnvironment : NoCopy {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
};

}  // namespace zero

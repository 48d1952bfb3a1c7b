#pragma once
#include <functional>

#include "tests/properties/case.h"

namespace zero::properties {

// The smallest case found by leaving things out for which `fails` still holds. Asks at
// most `max_tries` times.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int max_tries);

}  // namespace zero::properties

// A configuration file's text.
#include "tests/fuzz/settings_claims.h"
#include "tests/fuzz/target.h"

namespace zero::fuzz::config {

void target(const std::string& text) { claim_config(text); }

}  // namespace zero::fuzz::config

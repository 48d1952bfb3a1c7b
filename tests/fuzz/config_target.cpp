// A configuration file's text.
#include "tests/fuzz/settings_claims.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  zero::fuzz::claim_config(zero::fuzz::text_of(data, size));
  return 0;
}

// What libFuzzer calls, for the target whose name ZERO_FUZZ_TARGET is.
#include <cstddef>
#include <cstdint>
#include <string>

namespace zero::fuzz::ZERO_FUZZ_TARGET {
void target(const std::string& text);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  zero::fuzz::ZERO_FUZZ_TARGET::target({reinterpret_cast<const char*>(data), size});
  return 0;
}

#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

// What every fuzz target defines: do with these bytes what the program does with a file's
// (or the shell's), and make sure of what must hold. libFuzzer calls it with bytes it has
// made up, replay.cpp with those of a corpus. An exception that leaves it is a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace zero::fuzz {

inline std::string text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A promise of ours. Not one of the program's own errors, which a target may catch.
inline void claim(bool holds, const std::string& promise) {
  if (!holds) throw std::logic_error("broken: " + promise);
}

}  // namespace zero::fuzz

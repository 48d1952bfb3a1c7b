#pragma once
#include <stdexcept>
#include <string>

// Each file NAME_target.cpp defines zero::fuzz::NAME::target(text): do with these bytes
// what the program does with a file's (or the shell's), and make sure of what must hold.
// libfuzzer.cpp calls it with bytes that libFuzzer has made up, replay.cpp with those of
// a corpus. An exception that leaves it is a finding.
namespace zero::fuzz {

// A promise of ours. Not one of the program's own errors, which a target may catch.
inline void claim(bool holds, const std::string& promise) {
  if (!holds) throw std::logic_error("broken: " + promise);
}

}  // namespace zero::fuzz

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

class Communicator;

// Small words between ranks. All calls are collective and wait.

// What `root` says, on every rank; the others' texts do not matter.
std::string broadcast_text(Communicator& ranks, const std::string& text, int root = 0);

// Every rank's text, in the order of the ranks.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text);

// The largest of all ranks' numbers.
int64_t largest(Communicator& ranks, int64_t value, const std::string& tag);

}  // namespace zero

#pragma once
#include <cstdint>

namespace zero::launcher {

// Count what torch's tensors take of the host from now on: activations and what the
// arithmetic needs beside them. The engine's own memory is not torch's, and not in here.
// Once in a process, before the first tensor that counts.
void count_tensor_memory();

// The most bytes that tensors have held at one time.
int64_t peak_tensor_bytes();

}  // namespace zero::launcher

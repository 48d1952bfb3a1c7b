#pragma once
#include <cstdint>

#include "launcher/process/binding.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class World;

struct ProcessSetup {
  Cores cores;
  int threads = 1;  // of the model's arithmetic
};

// Cores, threads, torch's seed and the delays of tests, as the settings say; and what
// torch's tensors take of the host is counted from now on: activations and what the
// arithmetic needs beside them. The engine's own memory is not torch's, and not in there.
// Before the first arithmetic, whose bits the threads and the seed decide.
ProcessSetup set_up_process(const Settings& settings, const World& world);

// Other threads of torch, for this process.
void set_threads(int num_threads);

// The most bytes that tensors have held at one time.
int64_t peak_tensor_bytes();

}  // namespace zero::launcher

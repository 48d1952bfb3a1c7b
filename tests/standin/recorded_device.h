#pragma once
#include <memory>

#include "engine/device/device.h"

namespace standin {

// The same GPU, whose streams, workers and memory are known by their names in the
// recording (recording.h), and whose workers' functions are part of it.
std::unique_ptr<zero::Device> recorded(std::unique_ptr<zero::Device> gpu);

}  // namespace standin

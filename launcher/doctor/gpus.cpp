#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "launcher/doctor/finding.h"
#include "launcher/run/lines.h"
#include "zero/errors.h"
#include "zero/gpu.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestDriver = 580;  // that knows CUDA 13

// Display and compute controllers of NVIDIA.
int count_on_bus() {
  int number = 0;
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    const std::string path = device.path();
    const bool is_nvidia = read_line(path + "/vendor") == "0x10de";
    number += is_nvidia && read_line(path + "/class").starts_with("0x03");
  }
  return number;
}

Finding judge_gpu(size_t index, const GpuFacts::Gpu& gpu) {
  const std::string name = fmt::format("GPU {}", index);
  const std::string text = fmt::format("{}: {} free of {}", gpu.text,
                                       short_bytes(gpu.free), short_bytes(gpu.total));
  const Row numbers = {{"free", gpu.free}, {"total", gpu.total}};
  if (gpu.free < gpu.total * 9 / 10)
    return {Mark::kNote, name, text + ": another program holds memory",
            "end it (nvidia-smi), or --device-memory SIZE for what is left", numbers};
  return {Mark::kOk, name, text, "", numbers};
}

// Where this process can use none.
Finding judge_absence(const GpuFacts& facts) {
  if (!facts.problem.empty()) return {Mark::kBad, "GPUs", facts.problem, facts.cure};
  if (facts.is_hidden && facts.num_on_bus > 0)
    return {Mark::kNote, "GPUs", "none that CUDA_VISIBLE_DEVICES shows",
            "unset CUDA_VISIBLE_DEVICES, unless that is meant"};
  if (facts.num_on_bus > 0)
    return {
        Mark::kBad, "GPUs",
        fmt::format("{} of NVIDIA on the bus, and no driver has one for this process",
                    facts.num_on_bus),
        fmt::format("NVIDIA's driver, {} or later; in a container its runtime (docker "
                    "--gpus all); in Slurm --gres=gpu:1",
                    kOldestDriver)};
  return {Mark::kOk, "GPUs",
          facts.has_part_for_gpus ? "none; this program could use some"
                                  : "none; this program was built without CUDA, too"};
}

Finding judge_driver(const GpuFacts& facts) {
  if (facts.driver.empty()) return {Mark::kOk, "driver", "none is loaded"};
  if (std::atoi(facts.driver.c_str()) < kOldestDriver)
    return {Mark::kBad, "driver", facts.driver + ": CUDA 13 needs a later one",
            fmt::format("NVIDIA's driver {} or later", kOldestDriver)};
  return {Mark::kOk, "driver", facts.driver};
}

}  // namespace

GpuFacts read_gpus() {
  GpuFacts facts;
  facts.num_on_bus = count_on_bus();
  facts.driver = version_in(read_line("/proc/driver/nvidia/version"));
  facts.is_hidden = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  std::error_code ignored;
  // Beside the library that this code is in.
  Dl_info info{};
  facts.has_part_for_gpus =
      dladdr(reinterpret_cast<const void*>(&read_gpus), &info) != 0 &&
      fs::exists(fs::path(info.dli_fname).parent_path() / "libzero_cuda.so", ignored);
  try {
    for (int gpu = 0; gpu < num_gpus(); ++gpu) {
      const GpuMemory memory = memory_of_gpu(gpu);
      facts.gpus.push_back({describe_gpu(gpu), memory.free, memory.total});
    }
  } catch (const Error& error) {
    facts.problem = error.problem();
    facts.cure = error.cure();
  }
  return facts;
}

Findings judge(const GpuFacts& facts) {
  Findings findings;
  for (size_t i = 0; i < facts.gpus.size(); ++i)
    findings.push_back(judge_gpu(i, facts.gpus[i]));
  if (facts.gpus.empty() || !facts.problem.empty())
    findings.push_back(judge_absence(facts));
  findings.push_back(judge_driver(facts));
  return findings;
}

}  // namespace zero::launcher

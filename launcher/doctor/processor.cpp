#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/doctor/finding.h"
#include "offload/affinity.h"
#include "offload/kernels.h"
#include "offload/topology.h"

namespace zero::launcher {
namespace {

Finding judge_cores(const ProcessorFacts& facts) {
  const std::string text = fmt::format("{} of {} CPUs, {} cores", facts.num_current,
                                       facts.num_present, facts.num_cores);
  const Row numbers = {{"allowed", facts.num_allowed}, {"present", facts.num_present}};
  if (facts.num_current < facts.num_allowed)
    return {Mark::kNote, "cores",
            fmt::format("{}: this process is pinned, {} are allowed", text,
                        facts.num_allowed),
            "nothing for ranks that mpirun pins: train widens them; else start without "
            "taskset or numactl",
            numbers};
  if (facts.num_allowed < facts.num_present)
    return {Mark::kNote, "cores", text + ": the others are not allowed to this process",
            "ask the batch system or container for more (--cpus-per-task, --cpuset-cpus)",
            numbers};
  return {Mark::kOk, "cores", text, "", numbers};
}

Finding judge_quota(const ProcessorFacts& facts) {
  if (facts.quota == 0) return {Mark::kOk, "quota", "CPU time is not limited"};
  const std::string text = fmt::format("{:.3g} CPUs' time", facts.quota);
  const Row numbers = {{"cpus", facts.quota}};
  if (facts.quota < facts.num_current)
    return {Mark::kNote, "quota",
            fmt::format("{} for {} CPUs: threads are stopped again and again", text,
                        facts.num_current),
            fmt::format("more time for the control group (docker --cpus), or fewer ranks "
                        "and --threads: {} in all",
                        std::max(1, static_cast<int>(facts.quota))),
            numbers};
  return {Mark::kOk, "quota", text, "", numbers};
}

Finding judge_nodes(const ProcessorFacts& facts) {
  const Row numbers = {{"nodes", facts.num_numa_nodes}};
  if (facts.num_numa_nodes <= 1) return {Mark::kOk, "NUMA", "one node", "", numbers};
  return {Mark::kOk, "NUMA",
          fmt::format("{0} nodes: with --ranks {0}, or a multiple, each rank's memory is "
                      "near its cores",
                      facts.num_numa_nodes),
          "", numbers};
}

Finding judge_isa(const ProcessorFacts& facts) {
  if (facts.isa == "avx2" || facts.isa == "avx512")
    return {Mark::kOk, "instructions", facts.isa};
  return {
      Mark::kNote, "instructions", facts.isa + ": updates and first values take longer",
      "a CPU with AVX2, or a virtual machine that shows that of its host (-cpu host)"};
}

Finding judge_bf16(const ProcessorFacts& facts) {
  if (facts.has_bf16) return {Mark::kOk, "bf16", "has instructions of its own"};
  return {Mark::kNote, "bf16",
          "no instructions for it: a step takes 3 to 11 times as long as in fp32",
          "--dtype fp32 where a CPU computes"};
}

}  // namespace

ProcessorFacts read_processor() {
  const Topology topology = read_topology();
  ProcessorFacts facts;
  facts.num_present = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.num_allowed = static_cast<int>(widest_affinity().size());
  facts.num_current = static_cast<int>(topology.affinity.size());
  facts.num_cores = topology.num_cores;
  facts.num_numa_nodes = topology.num_numa_nodes;
  facts.quota = cpu_quota();
  facts.isa = fastest_kernels().isa;
  facts.has_bf16 = has_bf16_instructions();
  return facts;
}

Findings judge(const ProcessorFacts& facts) {
  return {judge_cores(facts), judge_quota(facts), judge_nodes(facts), judge_isa(facts),
          judge_bf16(facts)};
}

bool has_bf16_instructions() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

}  // namespace zero::launcher

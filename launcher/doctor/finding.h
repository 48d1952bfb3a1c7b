#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/bench/rounds.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "offload/fastest_threads.h"

// What a machine offers, judged.
namespace zero::launcher {

// It is well; it works and may be better, or may surprise; something will not work.
enum class Mark { kOk, kNote, kBad };

struct Finding {
  Mark mark = Mark::kOk;
  std::string name;       // "cores"
  std::string text;       // what is there; no name of a host, a user or a path
  std::string cure = {};  // of all that is not ok
  Row numbers = Row::object();
};
using Findings = std::vector<Finding>;

struct FindingGroup {
  std::string name;  // "processor"
  Findings findings;
};
using Diagnosis = std::vector<FindingGroup>;

// A group whose machine could not be looked at is one finding that says why, never a
// throw.
FindingGroup look_at(const std::string& group, const std::function<Findings()>& look);

// Of the disk below --out.
struct DiskFacts {
  std::string kind;             // of its file system: "ext4", "tmpfs"; or a number
  bool is_there = true;         // else the nearest folder above it is meant
  int64_t free = 0, total = 0;  // bytes
  std::string problem;          // why nothing can be written; empty: it can
  int64_t bytes = 0;            // that were measured
  double write_seconds = 0, read_seconds = 0;
};

// Write up to 256 MiB, and read them back; a slow disk gets less. The file has no name
// after a moment, so that nothing stays behind whatever ends this process.
DiskFacts read_disk(const std::string& out);

Findings judge(const DiskFacts& facts);

// The name of a kind of file system by the number that statfs() tells.
std::string kind_of_file_system(int64_t number);

struct GpuFacts {
  struct Gpu {
    std::string text;             // "NVIDIA H100 80GB HBM3, CUDA 13.0"
    int64_t free = 0, total = 0;  // bytes
  };
  std::vector<Gpu> gpus;      // that this process can use
  std::string problem, cure;  // why there is one that it cannot use; empty: no such
  int num_on_bus = 0;         // NVIDIA's, that the machine has, with or without a driver
  std::string driver;         // "580.65.06"; empty: none is loaded
  bool has_part_for_gpus = false;  // libzero_cuda.so lies beside the program
  bool is_hidden = false;          // CUDA_VISIBLE_DEVICES is set
};

GpuFacts read_gpus();

Findings judge(const GpuFacts& facts);

struct LibraryFacts {
  std::string name;
  std::string built_with;   // the version of the headers; empty: without it
  std::string loaded;       // empty: it is not
  bool must_match = false;  // another version does not work
};

// `torch` as torch_versions() tells.
std::vector<LibraryFacts> read_libraries(const std::pair<std::string, std::string>& torch);

Findings judge(const std::vector<LibraryFacts>& libraries);

// Of LibTorch, as of the others: headers, and what is loaded.
std::pair<std::string, std::string> torch_versions();

// How CUDA and NCCL write their versions: (13010, 1000) -> "13.1", (22809, 10000) ->
// "2.28.9".
std::string cuda_version_text(int number);
std::string nccl_version_text(int number);

// The first number with dots in a text: "4.1.4"; empty: none.
std::string version_in(const std::string& text);

// This program's.
std::string program_version();

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// In bytes, where nothing else is said.
struct MemoryFacts {
  int64_t total = 0, free = 0;
  int64_t group_limit = kNoLimit;
  int64_t swap_total = 0, swap_free = 0;
  int64_t overcommit = 0;         // vm.overcommit_memory; 2: strict; -1: nobody tells
  std::string huge_pages;         // "always", "madvise", "never"; empty: nobody tells
  std::vector<ThreadRate> rates;  // empty: not measured
};

struct LimitFacts {
  int64_t locked = kNoLimit, file = kNoLimit, address_space = kNoLimit;
  int64_t open_files = kNoLimit, processes = kNoLimit;  // numbers
  bool has_gpu_or_rdma = false;                         // who locks memory
  int64_t shm_total = -1, shm_free = 0;                 // /dev/shm; -1: there is none
};

// Measures what threads move, which takes a moment. Throws std::runtime_error when the
// machine cannot be read.
MemoryFacts read_memory();
LimitFacts read_limits();

Findings judge(const MemoryFacts& facts);
Findings judge(const LimitFacts& facts);

// "always [madvise] never" -> "madvise"
std::string chosen_in(const std::string& line);

// What became of ranks that were to say hello.
struct Hello {
  int num_ranks = 2;
  std::string by = "mpirun";  // who has started them
  double limit = 0;           // seconds that they had
  ChildOutcome outcome;
  std::string cure;  // of the fault, where that is known
};

struct MpiFacts {
  std::string library;    // "Open MPI v4.1.4, ..."
  std::string mpirun;     // "mpirun (Open MPI) 4.1.4"; empty: there is none in PATH
  bool has_srun = false;  // in PATH
  bool is_root = false;   // and may an mpirun be started so?
  bool allows_root = false;
  int num_cores = 0;        // of this host, where ranks may run
  int num_slurm_tasks = 0;  // of the job that this is in; 0: in none
  bool has_pmix = false;    // who started this process offers it
  std::optional<AnnouncedWorld> announced;
  std::optional<Hello> hello;  // nothing: not tried
};

// All but the hello.
MpiFacts read_mpi(const std::vector<std::string>& environment,
                  const std::optional<AnnouncedWorld>& announced);

// Start two ranks of this program, as --ranks does, that join MPI and tell each other
// where they are; 10 seconds at most.
Hello say_hello(const std::vector<std::string>& environment);

// The same among the ranks that somebody else has started: collective. Nothing on all but
// the first.
std::optional<Hello> join_hello(const std::vector<std::string>& environment,
                                const AnnouncedWorld& announced);

// What the first of those two ranks prints.
std::string hello_of(const World& world);

Findings judge(const MpiFacts& facts);

struct ProcessorFacts {
  int num_present = 0;     // CPUs of the machine, two hardware threads count twice
  int num_allowed = 0;     // of them, those that a container or batch system allows
  int num_current = 0;     // of those, where this process may run now
  int num_cores = 0;       // physical, among those that are allowed
  int num_numa_nodes = 0;  // 0: nobody tells
  double quota = 0;        // CPUs whose time control groups allow; 0: they do not limit
  std::string isa;         // of the loops over all parameters: "avx512"
  bool has_bf16 = true;    // has_bf16_instructions()
};

// Throws std::runtime_error when the machine cannot be read.
ProcessorFacts read_processor();

Findings judge(const ProcessorFacts& facts);

// Does this processor multiply bf16 by itself? Where it does not, LibTorch takes several
// times as long as in fp32. Of those that cannot be asked it is believed.
bool has_bf16_instructions();

int64_t count(const Diagnosis& diagnosis, Mark mark);

// For people: a line for each finding, a second one with the cure.
std::string to_page(const Diagnosis& diagnosis, double seconds);

// For programs: one JSON object in a line.
std::string to_line(const Diagnosis& diagnosis, double seconds);

// The page of `zero_launch doctor --help`.
std::string doctor_help();

}  // namespace zero::launcher

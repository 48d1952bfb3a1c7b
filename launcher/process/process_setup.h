#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/settings/settings.h"
#include "offload/fastest_threads.h"

// Cores, threads and memory of a process that computes.
namespace zero::launcher {

class World;

// The CPUs to widen to, for a rank that its launcher has pinned to one core while its
// fair share of the node is more; nothing when it should stay as it is. `node_cpus` are
// those open to this job, in the order of the machine.
std::optional<std::vector<int>> wider_affinity(const std::vector<int>& current,
                                               const std::vector<int>& node_cpus,
                                               int local_rank, int local_size);

// What a rank may use of its node.
struct Cores {
  std::vector<int> cpus;
  int share = 1;     // how many of them are its own when ranks share the node fairly
  std::string note;  // "0-3 (was pinned to 0)"
};

// The CPUs of a rank that nobody has pinned: its fair share of those that are open to all
// of them; nothing where there are more ranks than CPUs.
std::optional<std::vector<int>> own_affinity(const std::vector<int>& open_cpus,
                                             int local_rank, int local_size);

// Of so many cores: what all ranks of a node, whose control group has that many CPUs'
// time (0: no limit), can keep busy; at least one.
int share_of_quota(int share, double quota, int local_size);

// Widen this process where wider_affinity() says so, pin one that was started here to
// own_affinity(), both if `may_bind`; tell what it may use. To be called before the first
// thread that computes.
Cores take_cores(const World& world, bool may_bind);

// Threads of the model's arithmetic: as asked for; else one for reproducible runs, as the
// order of sums in a matrix product depends on their number; else as OMP_NUM_THREADS
// says (0: it does not); else the share.
int choose_threads(int asked_for, bool is_deterministic, int by_variable, int share);

// What OMP_NUM_THREADS says of the outermost level, "4" or "4,2"; 0: no number.
int threads_of_variable(const std::vector<std::string>& environment);

// The same for a run that goes on, whose checkpoint was made with `saved` (0: it does not
// tell): those again, unless others were asked for or no rank's cores can run so many.
struct ThreadsAgain {
  int threads = 1;
  std::string note;  // "threads was 2, is 4, so bits may differ"; empty: nothing to say
};
ThreadsAgain choose_threads_again(int64_t saved, bool are_asked_for, int chosen,
                                  int64_t num_cores);

// Threads of the optimizer: as asked for, else as many as this machine needs, measured in
// at most `most_bytes` of memory. They decide no bit.
ThreadChoice choose_adam_threads(int asked_for, int64_t most_bytes);

struct ProcessSetup {
  Cores cores;
  int threads = 1;             // of the model's arithmetic
  bool are_asked_for = false;  // by a setting or the environment
};

// Cores, threads, torch's seed and the delays of tests, as the settings say; and what
// torch's tensors take of the host is counted from now on: activations and what the
// arithmetic needs beside them. The engine's own memory is not torch's, and not in there.
// Before the first arithmetic, whose bits the threads and the seed decide.
ProcessSetup set_up_process(const Settings& settings, const World& world);

// Other threads of torch, for this process.
void set_threads(int num_threads);

// A product of matrices: [rows, depth] times [depth, width].
struct Product {
  int64_t rows = 0, depth = 0, width = 0;
};

// Let the library of matrix products take the buffers that it keeps for the largest
// product of a run: some for each thread, up to a size. Smaller products need no others
// then. Takes a tenth of a second, and no time for a product that is empty.
void try_product(const Product& largest);

// The most bytes that tensors have held at one time.
int64_t peak_tensor_bytes();

}  // namespace zero::launcher

#pragma once

#include <string>
#include <vector>

namespace zero {

// CPUs, numbered as the operating system does, and who may run on them.

// CPUs on which the calling thread may run now, ascending.
std::vector<int> current_affinity();

// CPUs that the container or batch system allows to this process, ascending, even where a
// launcher has pinned it to fewer. The calling thread's own affinity stays.
std::vector<int> widest_affinity();

// Restrict the calling thread, and the threads it starts from now on, to exactly `cpus`.
//
// Call it in main() before the first ThreadPool or OpenMP region. Throws
// std::runtime_error, and leaves the affinity as it was, when one of the CPUs does not
// exist or is not allowed.
void bind_process(const std::vector<int>& cpus);

// The same, answering false where bind_process() throws.
bool try_bind(const std::vector<int>& cpus) noexcept;

// The part of `allowed_cpus_of_node` that is due to `local_rank` of `local_size` ranks.
//
// The list is cut into contiguous parts whose sizes differ by at most one; when there are
// more ranks than CPUs, each gets one CPU and several share it. Throws
// std::invalid_argument for an empty list or a rank outside [0, local_size).
std::vector<int> fair_share(const std::vector<int>& allowed_cpus_of_node, int local_rank,
                            int local_size);

// "0-2,5" for {0, 1, 2, 5}, in ascending order; "" for none.
std::string format_cpus(std::vector<int> cpus);

}  // namespace zero

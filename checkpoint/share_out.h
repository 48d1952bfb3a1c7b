#pragma once

#include <cstddef>
#include <functional>

namespace zero::checkpoint {

// What one thread does with each job that it takes.
using Worker = std::function<void(size_t job)>;

// Let several threads, this one among them, take the jobs 0 to num_jobs - 1 in their
// order; each has a worker of its own. As many as there are cores, at most 16, but some
// on the smallest machine: while one waits for the disk, another hashes. Where the system
// gives fewer, these do the work.
//
// When workers throw, no more jobs are taken, and of what was thrown the error of the
// first job is thrown here: the same, whatever the threads' order.
void share_out(size_t num_jobs, const std::function<Worker()>& make_worker);

}  // namespace zero::checkpoint

#pragma once
#include "engine/errors.h"

namespace zero {

// MPI for the lifetime of a program, and this process's place in it.
//
// Initialises MPI with threads unless the caller has done so, and finalises only what it
// initialised. While an exception passes through it does not finalise, as that would wait
// for the other ranks: mpirun then ends them. Throws Error(kEnvironment) if MPI cannot be
// used from several threads.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host
  int local_size() const { return local_size_; }

  // End all ranks at once; this process does not return.
  [[noreturn]] void abort(ExitCode code);

 private:
  void initialise();
  void find_local_ranks();

  bool is_owner_ = false;
  int num_exceptions_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace zero

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/errors.h"

namespace zero {
class Ranks;
class HangWatch;
class MpiSession;
}  // namespace zero

namespace zero::launcher {

// The ranks that whoever started this process has announced in its environment, known
// before MPI is.
struct AnnouncedWorld {
  std::string source;  // OMPI_COMM_WORLD_SIZE, ...
  int size = 0;        // 0: not told, only that there are ranks
  int rank = 0;
};

// Nothing when this process was started by itself. `environment` holds "NAME=value".
//
// Read in this order: --ranks of this program; mpirun of OpenMPI; srun (the step's tasks,
// not the job's: a batch script is one process and sees the job's too); mpiexec of MPICH
// and Intel, whose ranks this program cannot join but must not mistake for processes of
// their own; PMIx, where a name space stands beside the rank: a rank alone is left over
// from somebody else.
std::optional<AnnouncedWorld> announced_world(const std::vector<std::string>& environment);

// The most ranks on one node, as mpirun or srun tell it; else all may be on this one.
int announced_ranks_on_node(const std::vector<std::string>& environment);

// Throws before MPI starts when ranks could not find each other, or a process would train
// alone where several were meant: srun without PMIx, an allocation of several tasks
// without srun, another number of ranks than `asked_for` (0: any).
void check_start(const std::vector<std::string>& environment,
                 const std::optional<AnnouncedWorld>& announced, int64_t asked_for);

// The ranks of this run and this process's place among them.
//
// A process that nobody announced as a rank is alone, and those of --ranks share memory:
// neither touches MPI. Otherwise MPI is initialised here and ended by the destructor.
// Throws Error(kEnvironment) when MPI has not as many ranks as were announced: each of
// them would train by itself.
class World {
 public:
  explicit World(const std::optional<AnnouncedWorld>& announced);
  ~World();

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host
  int local_size() const { return local_size_; }
  // By --ranks of this program, which pins no rank to cores.
  bool is_started_here() const { return started_ != nullptr; }

  // All ranks; collective.
  std::unique_ptr<Ranks> make_ranks() const;

  // From now on name ranks that keep the others waiting, and end all with code 86 when it
  // takes longer than `give_up` seconds (0: never); collective.
  void watch(int64_t give_up);

  // End every rank at once.
  [[noreturn]] void abort(ExitCode code);

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::unique_ptr<MpiSession> mpi_;  // null: alone, or started here
  std::unique_ptr<Ranks> started_;   // null: not started here
  std::unique_ptr<Ranks> watched_;   // null before watch()
  std::unique_ptr<HangWatch> watch_;
};

// The check of World's constructor.
void check_world_size(const AnnouncedWorld& announced, int mpi_size);

}  // namespace zero::launcher

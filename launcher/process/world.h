#pragma once
#include <memory>
#include <optional>

#include "engine/errors.h"
#include "launcher/process/announced_world.h"

namespace zero {
class Ranks;
class HangWatch;
class MpiSession;
}  // namespace zero

namespace zero::launcher {

// The ranks of this run and this process's place among them.
//
// A process that nobody announced as a rank is alone and never touches MPI. Otherwise MPI
// is initialised here and ended by the destructor. Throws Error(kEnvironment) when MPI
// has not as many ranks as were announced: each of them would train by itself.
class World {
 public:
  explicit World(const std::optional<AnnouncedWorld>& announced);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  int local_size() const;

  // All ranks; collective.
  std::unique_ptr<Ranks> make_ranks() const;

  // From now on name ranks that keep the others waiting, and end all with code 86 when it
  // takes longer than `give_up` seconds (0: never); collective.
  void watch(int64_t give_up);

  // End every rank at once.
  [[noreturn]] void abort(ExitCode code);

 private:
  std::unique_ptr<MpiSession> mpi_;  // null: alone
  std::unique_ptr<HangWatch> watch_;
};

// The check of World's constructor.
void check_world_size(const AnnouncedWorld& announced, int mpi_size);

}  // namespace zero::launcher

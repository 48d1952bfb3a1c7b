#pragma once
#include <memory>
#include <string>
#include <utility>

#include "engine/comm/mpi.h"

namespace zero {

// What mpi.h offers, as the part of this program that is linked to MPI does it.
struct MpiLibrary {
  bool (*is_initialised)();
  void (*initialise)();  // throws as MpiSession's constructor does
  void (*require_threads)(bool is_ours);
  void (*finalise)();
  void (*abort)(int code);
  std::pair<Place, Place> (*places)();  // among all ranks, and among those of this host
  std::unique_ptr<Ranks> (*make_ranks)(const MpiRanksOptions& options);
  std::unique_ptr<HangPost> (*make_hang_post)();
  std::pair<std::string, std::string> (*versions)();
};

}  // namespace zero

// Its entry: a program may be linked to it, else libzero_mpi.so has it.
extern "C" const zero::MpiLibrary* zero_mpi_library();

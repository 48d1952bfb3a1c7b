#pragma once
#include <memory>

namespace zero {

class Communicator;
class MpiSession;

// All ranks of the program. Without a session, or alone in it: one rank that needs no
// MPI. Collective.
std::unique_ptr<Communicator> make_world_communicator(const MpiSession* session);

}  // namespace zero

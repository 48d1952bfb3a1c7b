#pragma once
#include <memory>

namespace zero {

class Communicator;

// A group of one rank: collectives are copies, and are queued like any other's.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace zero

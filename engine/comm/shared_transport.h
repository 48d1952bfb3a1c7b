#pragma once
#include <memory>

#include "engine/comm/neighbours.h"
#include "engine/comm/shared_area.h"
#include "engine/comm/transport.h"

namespace zero {

// Of a slot: large enough to wake the others seldom, small enough that a rank adds only
// 1 MiB to a group's memory. Between 256 KiB and 4 MiB speed hardly differs.
constexpr int64_t kDefaultSlotBytes = 512 << 10;

// A transport through memory that all ranks share.
std::unique_ptr<Transport> make_shared_transport(std::shared_ptr<Neighbours> neighbours,
                                                 SharedArea area, int rank);

// Whom the ranks of such a transport share their memory with.
Neighbours& neighbours_of(Transport& transport);

}  // namespace zero

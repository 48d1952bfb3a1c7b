#pragma once

namespace zero {

// Of a thread, while a unit's body runs: its graph is thrown away, to be made again in
// backward. What only backward needs is best made there.
inline thread_local bool is_graph_discarded = false;

}  // namespace zero

#include "engine/unit/discarded_graph.h"

namespace zero {
namespace {

thread_local bool is_discarded_here = false;

}  // namespace

DiscardedGraph::DiscardedGraph(bool is_discarded) : outer_(is_discarded_here) {
  is_discarded_here = is_discarded;
}
DiscardedGraph::~DiscardedGraph() { is_discarded_here = outer_; }

bool DiscardedGraph::is_here() { return is_discarded_here; }

}  // namespace zero

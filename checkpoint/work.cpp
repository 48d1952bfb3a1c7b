#include "checkpoint/work.h"

#include <atomic>

namespace zero::checkpoint {
namespace {

std::atomic<void (*)()> the_listener{nullptr};

}  // namespace

void set_work_listener(void (*listener)()) { the_listener = listener; }

void note_work() {
  if (void (*listener)() = the_listener.load(std::memory_order_relaxed)) listener();
}

}  // namespace zero::checkpoint

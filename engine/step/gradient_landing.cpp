#include "engine/step/gradient_landing.h"

#include <algorithm>

#include "engine/plan/memory_plan.h"
#include "engine/watch/trace.h"

namespace zero {

GradientLanding::GradientLanding(Device& device, Stream& out, HostStream& worker,
                                 ThreadPool& threads, int64_t bytes)
    : bytes_(bytes),
      out_(out),
      worker_(worker),
      threads_(threads),
      arena_("gradient landing", kNumLandings * bytes) {
  for (int i = 0; i < kNumLandings; ++i)
    places_.emplace_back().memory = arena_.allocate("landing", bytes);
  pinned_.emplace(device, arena_.data(), arena_.capacity_bytes());
}

// The place that was taken first, once it has been added.
GradientLanding::Place& GradientLanding::next_place() {
  places_.splice(places_.end(), places_, places_.begin());
  out_.wait(places_.back().added);
  return places_.back();
}

void GradientLanding::add(const Addition& addition, const void* values, DType type,
                          int64_t numel, const std::string& tag) {
  const int64_t element = size_of(type), most = bytes_ / element / 64 * 64;
  for (int64_t begin = 0; begin < numel; begin += most) {
    const int64_t count = std::min(most, numel - begin);
    Place& place = next_place();
    out_.copy(place.memory, static_cast<const std::byte*>(values) + begin * element,
              count * element);
    out_.record(place.arrived);
    Addition piece = from(addition, begin);
    piece.point_to(place.memory, type);
    worker_.wait(place.arrived);
    worker_.enqueue([piece, count, tag, this] {
      const Trace::Span span("sum", tag);
      add_up(piece, 0, count, threads_);
    });
    worker_.record(place.added);
  }
}

}  // namespace zero

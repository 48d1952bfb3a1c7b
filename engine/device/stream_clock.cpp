#include "engine/device/stream_clock.h"

#include <utility>

#include "engine/device/device.h"
#include "engine/watch/trace.h"

namespace zero {

StreamClock::Span::Span(StreamClock& clock, Stream& stream, Work work,
                        std::string_view what, std::string_view whom)
    : stream_(stream), work_(work) {
  const bool is_drawn = Trace::is_on() && !dynamic_cast<HostStream*>(&stream);
  if (work == Work::kPart && !is_drawn) return;
  if (is_drawn) {
    lane_ = "GPU " + stream.name();
    name_ = span_name(what, whom);
  }
  begin_ = stream.stamp();
  clock_ = &clock;
}

StreamClock::Span::~Span() {
  if (!clock_) return;
  try {
    clock_->add({work_, std::move(lane_), std::move(name_), begin_, stream_.stamp()});
  } catch (const std::exception&) {
    // whoever waits for the stream is told
  }
}

StreamSeconds StreamClock::seconds() {
  const std::lock_guard lock(mutex_);
  collect();
  return seconds_;
}

// Looked through when there are twice as many as were left the last time: nobody has to
// ask.
void StreamClock::add(Entry entry) {
  constexpr size_t kFew = 256;
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
  if (entries_.size() <= most_entries_) return;
  collect();
  most_entries_ = 2 * entries_.size() + kFew;
}

void StreamClock::collect() {
  std::erase_if(entries_, [this](const Entry& entry) { return is_over(entry); });
}

bool StreamClock::is_over(const Entry& entry) {
  const std::optional<int64_t> end = entry.end->ns();
  if (!end) return false;
  const std::optional<int64_t> begin = entry.begin->ns();
  if (!begin) return true;
  const double seconds = static_cast<double>(*end - *begin) * 1e-9;
  if (entry.work == Work::kRunning) seconds_.compute += seconds;
  if (entry.work == Work::kWaiting) seconds_.compute -= seconds;
  if (entry.work == Work::kWaiting) seconds_.waiting += seconds;
  if (entry.work == Work::kWeights) seconds_.weights += seconds;
  if (entry.work == Work::kGradients) seconds_.gradients += seconds;
  if (entry.work == Work::kOptimizer) seconds_.optimizer += seconds;
  if (entry.work == Work::kSaves) seconds_.saves += seconds;
  if (!entry.lane.empty()) Trace::add(entry.lane, {entry.name, *begin, *end});
  return true;
}

}  // namespace zero

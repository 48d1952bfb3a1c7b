#include "engine/watch/activity.h"

#include <algorithm>

namespace zero {

Activity& Activity::here() {
  static Activity activity;
  return activity;
}

Activity::Stretch::Stretch(std::string what, std::string_view verb, bool waits)
    : span_(verb.empty() ? what : verb, verb.empty() ? "" : what) {
  Activity& activity = here();
  activity.sign();
  const std::lock_guard guard(activity.mutex_);
  id_ = ++activity.last_id_;
  activity.entries_.push_back({id_, waits, std::move(what)});
}

Activity::Stretch::~Stretch() {
  Activity& activity = here();
  activity.sign();
  const std::lock_guard guard(activity.mutex_);
  std::erase_if(activity.entries_, [&](const Entry& entry) { return entry.id == id_; });
}

void Activity::Stretch::expect(int64_t bytes) {
  Activity& activity = here();
  const std::lock_guard guard(activity.mutex_);
  const auto entry = std::ranges::find(activity.entries_, id_, &Entry::id);
  entry->total_bytes = bytes;
  entry->first_byte = activity.bytes_;
}

std::optional<Activity::Progress> Activity::progress() const {
  const std::lock_guard guard(mutex_);
  const auto entry = std::ranges::find_if(
      entries_, [](const Entry& each) { return each.total_bytes > 0; });
  if (entry == entries_.end()) return {};
  const int64_t done = bytes_.load(std::memory_order_relaxed) - entry->first_byte;
  return Progress{entry->id, entry->what, std::min(done, entry->total_bytes),
                  entry->total_bytes};
}

// The oldest call tells: later ones are queued behind it.
Activity::State Activity::state() const {
  State state;
  state.signs = signs_.load(std::memory_order_relaxed);
  std::string call, work;
  const std::lock_guard guard(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.is_waiting) {
      work += (work.empty() ? "" : ", ") + entry.what;
    } else if (state.call == 0) {
      state.call = entry.id;
      call = entry.what;
    }
  }
  if (call.empty())
    state.where = work.empty() ? "between two steps" : work;
  else
    state.where = call + (work.empty() ? "" : " (" + work + ")");
  return state;
}

}  // namespace zero

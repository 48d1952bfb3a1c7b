#include "tests/standin/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace zero::testing {
namespace {

using standin::Access;
using standin::Call;
using Kind = standin::Call::Kind;

const char* begin_of(const Access& access) {
  return static_cast<const char*>(access.memory);
}
const char* end_of(const Access& access) { return begin_of(access) + access.bytes; }

class Maker {
 public:
  Maker(const standin::Recording& recording, const std::vector<Trace::Lane>& trace)
      : recording_(recording), trace_(trace) {}

  Schedule make() {
    for (size_t i = 0; i < recording_.calls.size(); ++i) {
      mark(i);
      const Call& call = recording_.calls[i];
      Lane& lane = lanes_[call.lane];
      if (call.kind == Kind::kRecord) {
        if (!lane.waits.empty()) end_of_waits(call.lane, lane);
        points_[i] = lane.last;
        lane.is_open = false;
      } else if (call.kind == Kind::kWait || call.accesses.empty()) {
        for (const size_t record : call.after) wait(lane, points_.at(record));
        if (call.lane == "training") end_of_waits(call.lane, lane);
      } else {
        work(call, lane);
      }
    }
    mark(recording_.calls.size());
    return std::move(schedule_);
  }

 private:
  struct Lane {
    std::optional<size_t> last;  // entry
    bool is_open = false;        // may the last entry go on?
    std::vector<size_t> waits;   // of the next entry
    size_t num_of_training = 0;  // entries of "training" before the last one
  };

  void mark(size_t call) {
    for (const size_t place : recording_.marks)
      if (place == call) schedule_.marks.push_back(schedule_.entries.size());
  }

  static void wait(Lane& lane, std::optional<size_t> entry) {
    if (!entry) return;  // nothing had been queued there
    lane.waits.push_back(*entry);
    lane.is_open = false;
  }

  Entry& begin(const std::string& name, Lane& lane, std::string what) {
    Entry entry{name, std::move(what), {}, {}};
    for (const size_t before : std::exchange(lane.waits, {})) {
      const bool is_new = std::ranges::find(entry.after, before) == entry.after.end();
      if (is_new && schedule_.entries[before].lane != name) entry.after.push_back(before);
    }
    lane.last = schedule_.entries.size();
    lane.is_open = true;
    lane.num_of_training = num_of_training_;
    if (name == "training") ++num_of_training_;
    return schedule_.entries.emplace_back(std::move(entry));
  }

  void end_of_waits(const std::string& name, Lane& lane) {
    if (lane.waits.empty()) return;
    const bool goes_on = name == "training" && lane.last &&
                         *lane.last + 1 == schedule_.entries.size() &&
                         schedule_.entries.back().accesses.empty();
    if (!goes_on) return void(begin(name, lane, "wait"));
    std::vector<size_t>& after = schedule_.entries.back().after;
    for (const size_t before : std::exchange(lane.waits, {}))
      if (std::ranges::find(after, before) == after.end()) after.push_back(before);
  }

  void work(const Call& call, Lane& lane) {
    const std::string what = name_of(call);
    const bool goes_on = lane.is_open && lane.num_of_training == num_of_training_ &&
                         schedule_.entries[*lane.last].what == what;
    Entry& entry = goes_on ? schedule_.entries[*lane.last] : begin(call.lane, lane, what);
    for (Access access : call.accesses) {
      give_name(access);
      if (std::ranges::find(entry.accesses, access) == entry.accesses.end())
        entry.accesses.push_back(access);
    }
  }

  // The innermost span around it, of its thread or, for autograd's, of the training one.
  std::string name_of(const Call& call) const {
    const bool is_worker = call.thread.starts_with(call.lane);
    if (call.lane != "compute" && !is_worker) return "copy";
    for (const std::string& thread : {call.thread, std::string("training")}) {
      const Trace::Event* innermost = nullptr;
      for (const Trace::Lane& lane : trace_) {
        if (lane.thread != thread) continue;
        for (const Trace::Event& span : lane.events) {
          if (span.begin_ns > call.time_ns || span.end_ns < call.time_ns) continue;
          if (!innermost || span.begin_ns > innermost->begin_ns) innermost = &span;
        }
      }
      if (innermost) return innermost->name;
    }
    return "between steps";
  }

  void give_name(Access& access) const {
    for (const Access& one : recording_.memory) {
      if (begin_of(access) < begin_of(one) || end_of(one) < end_of(access)) continue;
      access.name = one.name;
      access.block = one.block;
    }
  }

  const standin::Recording& recording_;
  const std::vector<Trace::Lane>& trace_;
  std::map<std::string, Lane> lanes_;
  std::map<size_t, std::optional<size_t>> points_;  // the last entry before each record
  size_t num_of_training_ = 0;
  Schedule schedule_;
};

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// What the memory of a step's entries is called. Blocks of one name are numbered in the
// order in which the step uses them.
class MemoryNames {
 public:
  explicit MemoryNames(const Schedule& schedule) {
    for (const Entry& entry : schedule.entries)
      for (const Access& access : entry.accesses) all_[access.name].insert(access.block);
  }

  // "reads a, b; writes c"; the unit's own is named without the unit.
  std::string of(const Entry& entry) {
    std::vector<std::string> reads, writes;
    for (const Access& access : entry.accesses) {
      if (access.name.empty()) continue;
      std::vector<std::string>& names = access.writes ? writes : reads;
      const std::string name = without_unit(name_of(access), entry);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    std::erase_if(reads, [&](const std::string& name) {
      return std::ranges::find(writes, name) != writes.end();
    });
    if (entry.what == "copy" && reads.size() == 1 && writes.size() == 1)
      return reads[0] + " -> " + writes[0];
    const std::string read = list("reads ", reads), written = list("writes ", writes);
    return read + (read.empty() || written.empty() ? "" : "; ") + written;
  }

 private:
  std::string name_of(const Access& access) {
    if (all_[access.name].size() == 1) return access.name;
    std::vector<const void*>& used = used_[access.name];
    auto place = std::ranges::find(used, access.block);
    if (place == used.end()) place = used.insert(place, access.block);
    return access.name + " " + std::to_string(place - used.begin());
  }

  static std::string without_unit(const std::string& name, const Entry& entry) {
    const std::string unit = entry.what.substr(entry.what.find(' ') + 1) + " ";
    return name.starts_with(unit) ? name.substr(unit.size()) : name;
  }

  static std::string list(const std::string& verb,
                          const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? verb : ", ") + name;
    return text;
  }

  std::map<std::string, std::set<const void*>> all_;
  std::map<std::string, std::vector<const void*>> used_;
};

}  // namespace

Schedule make_schedule(const standin::Recording& recording,
                       const std::vector<Trace::Lane>& trace) {
  return Maker(recording, trace).make();
}

std::string text_of(const Schedule& schedule, size_t first_mark) {
  const size_t first = schedule.marks.at(first_mark),
               last = schedule.marks.at(first_mark + 1);
  const auto number = [&](size_t entry) {
    std::string primes;
    for (; entry < first; entry += last - first) primes += "'";
    return std::to_string(entry - first + 1) + primes;
  };
  MemoryNames memory(schedule);
  std::string text;
  for (size_t i = first; i < last; ++i) {
    const Entry& entry = schedule.entries[i];
    // Of a lane's entries the latest stands for those before.
    std::map<std::string, size_t> latest;
    for (const size_t before : entry.after) {
      size_t& place = latest[schedule.entries[before].lane];
      place = std::max(place, before);
    }
    std::set<size_t> after;
    for (const auto& [lane, place] : latest) after.insert(place);
    std::string waits;
    for (const size_t before : after)
      waits += (waits.empty() ? "after " : ", ") + number(before);
    std::string line = padded(std::to_string(i - first + 1), 3) + padded(entry.lane, 16) +
                       padded(entry.what, 20) + padded(waits, 16) + memory.of(entry);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace zero::testing

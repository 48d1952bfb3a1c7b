#include "launcher/run/step_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/error.h"
#include "checkpoint/own_files.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

using Json = nlohmann::ordered_json;

// Names this rank, or one of its threads.
Json label(const std::string& kind, int rank, size_t thread, const std::string& name) {
  return {{"ph", "M"},
          {"name", kind},
          {"pid", rank},
          {"tid", thread},
          {"args", {{"name", name}}}};
}

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

Json event_of(const Trace::Event& event, int rank, size_t thread) {
  return {{"ph", "X"},
          {"name", event.name},
          {"cat", event.name.substr(0, event.name.find(' '))},
          {"pid", rank},
          {"tid", thread},
          {"ts", microseconds(event.begin_ns)},
          {"dur", microseconds(event.end_ns - event.begin_ns)}};
}

// How each of ours begins, as to_chrome() makes it.
constexpr char kTraceBegin[] = "[\n{\"ph\":\"M\",\"name\":\"process_name\"";

}  // namespace

std::string to_chrome(const std::vector<Trace::Lane>& lanes, int rank) {
  std::vector<Json> events = {
      label("process_name", rank, 0, fmt::format("rank {}", rank))};
  for (size_t thread = 0; thread < lanes.size(); ++thread) {
    events.push_back(label("thread_name", rank, thread, lanes[thread].thread));
    for (const Trace::Event& event : lanes[thread].events)
      events.push_back(event_of(event, rank, thread));
  }
  std::string text;
  for (const Json& event : events)
    text += (text.empty() ? "[\n" : ",\n") + json_text(event);
  return text + "\n]\n";
}

StepTrace::StepTrace(const StepRange& steps, const std::string& run, int rank)
    : steps_(steps), path_(fmt::format("{}/trace_{:05}.json", run, rank)), rank_(rank) {}

StepTrace::~StepTrace() {
  if (is_recording_)
    write();
  else if (!has_recorded_ && rank_ == 0 && steps_.last > 0)
    warn(
        fmt::format("no trace: steps {} to {} were not made", steps_.first, steps_.last));
}

void StepTrace::begin(int64_t step) {
  if (is_recording_ || step < steps_.first || step > steps_.last) return;
  Trace::start();
  is_recording_ = has_recorded_ = true;
}

void StepTrace::end(int64_t step) {
  if (is_recording_ && step >= steps_.last) write();
}

void StepTrace::write() {
  is_recording_ = false;
  try {
    checkpoint::replace_text(path_, to_chrome(Trace::finish(), rank_), kTraceBegin);
    if (rank_ == 0) tell("trace, a file for each rank: " + path_);
  } catch (const checkpoint::CheckpointError& error) {
    warn(fmt::format("{} could not be written: {}", path_, error.problem()));
  }
}

}  // namespace zero::launcher

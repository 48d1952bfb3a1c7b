#include "tests/standin/recording.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace standin {
namespace {

using Kind = Call::Kind;

struct Recorder {
  std::mutex mutex;
  std::atomic<bool> is_on{false};
  std::atomic<std::thread::id> training{};
  // All guarded by mutex:
  Recording recording;
  std::map<const void*, std::string> streams;
  std::map<const void*, size_t> records;              // the latest of each event
  std::map<std::string, std::vector<Access>> let_go;  // since the last work of each lane
};

Recorder& recorder() {
  static Recorder& instance = *new Recorder;  // never destroyed: threads may outlive
                                              // main()
  return instance;
}

thread_local CallNumber running = 0, latest = 0;

// As the Trace knows it.
std::string name_of_this_thread() {
  if (std::this_thread::get_id() == recorder().training) return "training";
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

// The training thread, or autograd's of its GPU.
bool is_of_rank() {
  const std::string name = name_of_this_thread();
  return name == "training" || name == "pt_autograd_0";
}

void stamp(Call& call) {
  call.thread = name_of_this_thread();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  call.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The mutex is held.
CallNumber add(Kind kind, const std::string& lane) {
  std::vector<Call>& calls = recorder().recording.calls;
  calls.push_back(
      {.kind = kind, .lane = lane, .accesses = {}, .after = {}, .thread = {}});
  stamp(calls.back());
  return calls.size();
}

Call& call_of(CallNumber number) { return recorder().recording.calls.at(number - 1); }

// What waits in this thread. The mutex is held.
Call& waiting_here() {
  return call_of(running != 0 ? running : add(Kind::kWait, "training"));
}

}  // namespace

bool is_recording() { return recorder().is_on && (running != 0 || is_of_rank()); }

void start_recording() {
  const std::lock_guard lock(recorder().mutex);
  recorder().recording = {};
  recorder().training = std::this_thread::get_id();
  recorder().is_on = true;
}

Recording finish_recording() {
  const std::lock_guard lock(recorder().mutex);
  recorder().is_on = false;
  recorder().streams.clear();
  recorder().records.clear();
  recorder().let_go.clear();
  return std::move(recorder().recording);
}

void mark_recording() {
  const std::lock_guard lock(recorder().mutex);
  recorder().recording.marks.push_back(recorder().recording.calls.size());
}

void name_memory(const void* memory, int64_t bytes, const std::string& name) {
  if (!is_recording() || bytes == 0) return;
  const std::lock_guard lock(recorder().mutex);
  recorder().recording.memory.push_back({memory, bytes, false, name, memory});
}

void name_stream(CUstream_st* stream, const std::string& name) {
  const std::lock_guard lock(recorder().mutex);
  recorder().streams[stream] = name;
}

std::string lane_of(CUstream_st* stream) {
  if (!is_recording()) return "";
  if (!stream) return "compute";
  const std::lock_guard lock(recorder().mutex);
  return recorder().streams.at(stream);
}

CallNumber note_work(const std::string& lane, std::vector<Access> accesses) {
  if (!is_recording()) return 0;
  const std::lock_guard lock(recorder().mutex);
  const CallNumber call = add(Kind::kWork, lane);
  for (const Access& memory : std::exchange(recorder().let_go[lane], {}))
    accesses.push_back({memory.memory, memory.bytes, true});
  call_of(call).accesses = std::move(accesses);
  return call;
}

void note_let_go(const std::string& lane, const Access& memory) {
  if (!is_recording()) return;
  const std::lock_guard lock(recorder().mutex);
  recorder().let_go[lane].push_back(memory);
}

CallNumber note_wait(const std::string& lane) {
  if (!is_recording()) return 0;
  const std::lock_guard lock(recorder().mutex);
  return latest = add(Kind::kWait, lane);
}

CallNumber latest_wait() { return latest; }

void note_record(const std::string& lane, const void* event) {
  if (!is_recording()) return;
  const std::lock_guard lock(recorder().mutex);
  recorder().records[event] = add(Kind::kRecord, lane) - 1;
}

void note_after(CallNumber wait, const void* event) {
  if (!is_recording()) return;
  const std::lock_guard lock(recorder().mutex);
  call_of(wait).after.push_back(recorder().records.at(event));
}

void note_host_wait(const void* event) {
  if (!is_recording()) return;
  const std::lock_guard lock(recorder().mutex);
  waiting_here().after.push_back(recorder().records.at(event));
}

void note_host_wait_for_lane(const std::string& lane) {
  if (!is_recording()) return;
  const std::lock_guard lock(recorder().mutex);
  const size_t end = add(Kind::kRecord, lane) - 1;
  waiting_here().after.push_back(end);
}

void note_access(const void* memory, int64_t bytes, bool writes) {
  if (!is_recording() || !memory || bytes == 0) return;
  const std::lock_guard lock(recorder().mutex);
  if (running == 0) add(Kind::kWork, "training");
  Call& call = running != 0 ? call_of(running) : recorder().recording.calls.back();
  call.accesses.push_back({memory, bytes, writes});
  if (running != 0) stamp(call);
}

Running::Running(CallNumber call) { running = call; }
Running::~Running() { running = 0; }

}  // namespace standin

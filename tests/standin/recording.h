#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What one rank queues on the stand-in's GPU and on the threads that work beside it: in
// the order of the calls, which does not depend on when anything runs. Others may be
// there, on other GPUs: what they do is not recorded.
//
// A lane is a stream, a worker, or "training": the thread that queues, together with
// autograd's, for which it waits. Nothing is recorded unless a test asks for it. From any
// thread.
struct CUstream_st;

namespace standin {

// What a call does to memory; and the block that it lies in, where that has a name.
struct Access {
  const void* memory = nullptr;
  int64_t bytes = 0;
  bool writes = false;
  std::string name = {};
  const void* block = nullptr;

  bool operator==(const Access&) const = default;
};

struct Call {
  enum class Kind { kWork, kWait, kRecord };
  Kind kind = Kind::kWork;
  std::string lane;
  std::vector<Access> accesses;  // of work
  std::vector<size_t> after;     // of waits: which records, by their place in the list
  // Who queued it when; for a worker's function, when it ran. As the Trace tells time.
  std::string thread;
  int64_t time_ns = 0;
};

struct Recording {
  std::vector<Call> calls;
  std::vector<Access> memory;  // that has a name
  std::vector<size_t> marks;   // how many calls there were at each mark
};

// From now on; the calling thread is the one that trains, on GPU 0. Devices that it makes
// before the end are recorded. All work must be over at the end.
void start_recording();
Recording finish_recording();
bool is_recording();  // what this thread does
void mark_recording();

void name_memory(const void* memory, int64_t bytes, const std::string& name);
void name_stream(CUstream_st* stream, const std::string& name);
std::string lane_of(CUstream_st* stream);

// A call, told apart by its number; 0: nobody records.
using CallNumber = size_t;
CallNumber note_work(const std::string& lane, std::vector<Access> accesses);
CallNumber note_wait(const std::string& lane);
// Nobody wants what is there any more: the lane's next work may write there.
void note_let_go(const std::string& lane, const Access& memory);
void note_record(const std::string& lane, const void* event);

// The call waits for this event's latest record.
void note_after(CallNumber wait, const void* event);
CallNumber latest_wait();  // that this thread noted
// So does what runs in this thread (Running), or else the training thread itself: for the
// event, or for all that is in a lane.
void note_host_wait(const void* event);
void note_host_wait_for_lane(const std::string& lane);
// What runs in this thread does this to memory.
void note_access(const void* memory, int64_t bytes, bool writes);

// The scope in which the host's function behind a call runs in this thread.
class Running {
 public:
  explicit Running(CallNumber call);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace standin

// NCCL, as far as the engine knows it, on the host: among threads or processes, whose
// GPUs are the stand-in's. They meet in memory that they share, named by the
// communicator's id.
//
// What NCCL does not promise is not kept here either: a call is queued only when it has
// been asked for often enough, one of a group is never done at once, sums are in no
// tree's order, and whoever waits for a rank that is gone waits until the communicator is
// aborted.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/standin/standin.h"

namespace standin {
namespace {

constexpr int64_t kSlotBytes = 1 << 16;
constexpr int kNumQuestions = 2;  // until a call has been queued

// At the beginning of the shared memory; zeros when it is new. Behind it is a slot for
// what each rank says to each.
struct Meeting {
  std::atomic<int> num_joined, num_here, generation;
};

// What a communicator and its queued calls share.
struct Communicator {
  int rank = 0, size = 0;
  std::string name;
  std::byte* memory = nullptr;
  std::atomic<bool> is_aborted = false;

  std::mutex mutex;
  ncclResult_t error = ncclSuccess;  // guarded by mutex
  int num_questions = 0;             // guarded by mutex; left until `next` is queued
  std::function<void()> next;        // guarded by mutex

  ~Communicator() {
    if (memory) munmap(memory, bytes());
  }
  int64_t bytes() const { return sizeof(Meeting) + size * size * kSlotBytes; }
  Meeting& meeting() { return *reinterpret_cast<Meeting*>(memory); }
  std::byte* slot(int from, int to) {
    return memory + sizeof(Meeting) + (from * size + to) * kSlotBytes;
  }

  // False: it was aborted.
  bool meet() {
    const int generation = meeting().generation;
    if (++meeting().num_here == size) {
      meeting().num_here = 0;
      ++meeting().generation;
      return true;
    }
    while (meeting().generation == generation) {
      if (is_aborted) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
  }
};

using Comm = std::shared_ptr<Communicator>;

// Of each rank: what it says, and what to do with what it said; addresses are the host's.
struct Transfer {
  std::vector<const std::byte*> to;
  std::function<void(int from, int64_t offset, const std::byte* said, int64_t bytes)> get;
};

void run(Communicator& comm, const Transfer& transfer, int64_t bytes) {
  for (int64_t offset = 0; offset < bytes; offset += kSlotBytes) {
    const int64_t count = std::min(kSlotBytes, bytes - offset);
    for (int to = 0; to < comm.size; ++to)
      std::memcpy(comm.slot(comm.rank, to), transfer.to[to] + offset, count);
    if (!comm.meet()) return;
    for (int from = comm.size - 1; from >= 0; --from)
      transfer.get(from, offset, comm.slot(from, comm.rank), count);
    if (!comm.meet()) return;
  }
}

// Runs until it is aborted where the test wants an error behind the call. Of memory, that
// of this rank counts: NCCL sees to it that the others are there.
void begin_call(const char* call, const Comm& comm, cudaStream_t stream,
                std::vector<Access> accesses, std::function<void()> body) {
  const std::string name = call;
  note_work(lane_of(stream), std::move(accesses));
  const std::lock_guard lock(comm->mutex);
  comm->num_questions = kNumQuestions;
  comm->next = [=, body = std::move(body)] {
    enqueue(name, stream, [=] {
      if (const int error = take_failure_when_run("nccl")) {
        {
          const std::lock_guard lock_of_error(comm->mutex);
          comm->error = static_cast<ncclResult_t>(error);
        }
        while (!comm->is_aborted)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      if (!comm->is_aborted) body();
    });
  };
}

std::byte* at(const void* memory) { return translate(memory); }

void add(std::vector<float>& to, const std::vector<float>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

// From the last rank to the first, or as the host would: STANDIN_SUMS=tree.
std::vector<float> sums_of(std::vector<std::vector<float>> values) {
  const char* const order = std::getenv("STANDIN_SUMS");
  if (order && std::string(order) == "tree") {
    for (size_t step = 1; step < values.size(); step *= 2) {
      for (size_t i = 0; i + step < values.size(); i += 2 * step)
        add(values[i], values[i + step]);
    }
    return values.front();
  }
  for (size_t i = values.size() - 1; i-- > 0;) add(values.back(), values[i]);
  return values.back();
}

}  // namespace
}  // namespace standin

using standin::Comm;
using standin::Communicator;

struct ncclComm {
  Comm shared;
};

namespace {

struct Message {
  Comm comm;
  bool is_sent;
  const void* memory;
  int64_t bytes;
  int peer;
  cudaStream_t stream;
};
struct Gather {
  Comm comm;
  const void* shard;
  void* full;
  int64_t bytes;
  cudaStream_t stream;
};
thread_local bool is_in_group = false;
thread_local std::vector<Message> messages;
thread_local std::vector<Gather> gathers;

void run(const Gather& gather) {
  // A copy: the shard lies in what is written.
  const std::byte* const shard = standin::at(gather.shard);
  const std::vector<std::byte> own(shard, shard + gather.bytes);
  std::byte* const to = standin::at(gather.full);
  standin::run(*gather.comm,
               {std::vector<const std::byte*>(gather.comm->size, own.data()),
                [&](int from, int64_t offset, const std::byte* said, int64_t piece) {
                  std::memcpy(to + from * gather.bytes + offset, said, piece);
                }},
               gather.bytes);
}

// As one call.
void begin_gathers(const std::vector<Gather>& all) {
  std::vector<standin::Access> accesses;
  for (const Gather& gather : all) {
    accesses.push_back({gather.shard, gather.bytes, false});
    accesses.push_back({gather.full, gather.comm->size * gather.bytes, true});
  }
  standin::begin_call("ncclAllGather", all.front().comm, all.front().stream, accesses,
                      [=] {
                        for (const Gather& gather : all) run(gather);
                      });
}

ncclResult_t add_message(Message message) {
  if (!is_in_group) return ncclInvalidUsage;
  messages.push_back(std::move(message));
  return ncclInProgress;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "a failure that the test planned";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION(2, 30, 0);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const int error = standin::take_failure("ncclGetUniqueId"))
    return static_cast<ncclResult_t>(error);
  static std::atomic<int> count = 0;
  const std::string name =
      "/standin-nccl-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  name.copy(id->internal, name.size() + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const int error = standin::take_failure("ncclCommInitRankConfig"))
    return static_cast<ncclResult_t>(error);
  if (config->blocking != 0) return ncclInvalidArgument;
  auto shared = std::make_shared<Communicator>();
  shared->rank = rank;
  shared->size = size;
  shared->name = id.internal;
  const int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, shared->bytes()) != 0) return ncclSystemError;
  void* const memory =
      mmap(nullptr, shared->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  shared->memory = static_cast<std::byte*>(memory);
  ++shared->meeting().num_joined;
  *comm = new ncclComm{shared};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Communicator& shared = *comm->shared;
  const std::lock_guard lock(shared.mutex);
  *state = shared.error;
  if (shared.error != ncclSuccess) return ncclSuccess;
  if (shared.meeting().num_joined < shared.size) {
    *state = ncclInProgress;
  } else if (shared.num_questions > 0) {
    *state = ncclInProgress;
    if (--shared.num_questions > 0) return ncclSuccess;
    shared.next();
    shared.next = {};
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->shared->is_aborted = true;
  {
    const std::lock_guard lock(comm->shared->mutex);
    comm->shared->next = {};  // which holds the communicator itself
  }
  // As NCCL does, until no queued call is left.
  while (comm->shared.use_count() > 1)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  shm_unlink(comm->shared->name.c_str());  // the first one's
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(comm->shared->mutex);
  return comm->shared->error;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return ncclCommAbort(comm); }

ncclResult_t ncclAllGather(const void* shard, void* full, size_t count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  if (const int error = standin::take_failure("ncclAllGather")) {
    gathers.clear();  // nothing of a group is begun
    return static_cast<ncclResult_t>(error);
  }
  if (type != ncclUint8) return ncclInvalidArgument;
  const Gather gather{comm->shared, shard, full, static_cast<int64_t>(count), stream};
  if (is_in_group)
    gathers.push_back(gather);
  else
    begin_gathers({gather});
  return ncclInProgress;
}

ncclResult_t ncclReduceScatter(const void* full, void* shard, size_t count,
                               ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  if (const int error = standin::take_failure("ncclReduceScatter"))
    return static_cast<ncclResult_t>(error);
  if (type != ncclFloat32 || operation != ncclSum) return ncclInvalidArgument;
  const auto numel = static_cast<int64_t>(count);
  const std::vector<standin::Access> accesses = {
      {full, comm->shared->size * numel * 4, false}, {shard, numel * 4, true}};
  standin::begin_call(
      "ncclReduceScatter", comm->shared, stream, accesses, [=, shared = comm->shared] {
        std::vector<const std::byte*> to;
        for (int rank = 0; rank < shared->size; ++rank)
          to.push_back(standin::at(full) + rank * numel * 4);
        std::vector<std::vector<float>> values(shared->size, std::vector<float>(count));
        standin::run(
            *shared,
            {to,
             [&](int from, int64_t offset, const std::byte* said, int64_t piece) {
               std::memcpy(values[from].data() + offset / 4, said, piece);
             }},
            numel * 4);
        if (shared->is_aborted) return;
        const std::vector<float> sums = standin::sums_of(std::move(values));
        std::memcpy(standin::at(shard), sums.data(), numel * 4);
      });
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() {
  is_in_group = true;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (const int error = standin::take_failure("ncclSend"))
    return static_cast<ncclResult_t>(error);
  return add_message(
      {comm->shared, true, from, static_cast<int64_t>(count), peer, stream});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message(
      {comm->shared, false, to, static_cast<int64_t>(count), peer, stream});
}

// Gathers alone; or every rank sends to and gets from every one, all alike.
ncclResult_t ncclGroupEnd() {
  is_in_group = false;
  if (const std::vector<Gather> grouped = std::exchange(gathers, {}); !grouped.empty()) {
    begin_gathers(grouped);
    return ncclInProgress;
  }
  const std::vector<Message> all = std::exchange(messages, {});
  if (all.empty()) return ncclSuccess;
  const Comm shared = all.front().comm;
  if (std::ssize(all) != 2 * shared->size) return ncclInvalidUsage;
  std::vector<standin::Access> accesses;
  for (const Message& message : all)
    accesses.push_back({message.memory, message.bytes, !message.is_sent});
  standin::begin_call("ncclGroupEnd", shared, all.front().stream, accesses, [=] {
    std::vector<const std::byte*> to(shared->size);
    std::vector<std::byte*> got(shared->size);
    for (const Message& message : all) {
      if (message.is_sent)
        to[message.peer] = standin::at(message.memory);
      else
        got[message.peer] = standin::at(message.memory);
    }
    standin::run(
        *shared,
        {to, [&](int from, int64_t offset, const std::byte* said,
                 int64_t piece) { std::memcpy(got[from] + offset, said, piece); }},
        all.front().bytes);
  });
  return ncclInProgress;
}

}  // extern "C"

#include "engine/comm/mpi/mpi_transport.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/no_copy.h"
#include "engine/comm/host_memory.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {

namespace {

constexpr int kPartsTag = 1;
// Small exchanges between ranks that are ready end without a sleep.
constexpr int kBusyPolls = 4;
constexpr std::chrono::microseconds kPollInterval{50};

// `bytes` bytes that stand `stride` apart when several of them are received.
class StridedType : NoCopy {
 public:
  StridedType(int64_t bytes, int64_t stride) {
    MPI_Datatype packed;
    check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &packed),
              "MPI_Type_contiguous");
    const int code = MPI_Type_create_resized(packed, 0, stride, &type_);
    check_mpi(MPI_Type_free(&packed), "MPI_Type_free");
    check_mpi(code, "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~StridedType() { MPI_Type_free(&type_); }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int64_t max_message_bytes)
      : Transport(place_in(comm), local_place_in(comm)),
        comm_(comm),
        max_message_bytes_(max_message_bytes) {
    return_mpi_errors(comm_);
  }

  // After a failure messages may still be under way: then the communicator is left to
  // MPI_Finalize.
  ~MpiTransport() override {
    int is_finalized = 0;
    if (is_under_way_ || MPI_Finalized(&is_finalized) != MPI_SUCCESS || is_finalized)
      return;
    MPI_Comm_free(&comm_);
  }

  using Transport::all_gather;
  void all_gather(const RankCall& call, std::span<const GatheredArray> arrays) override {
    agree(call);
    for (const auto& [shard, full, shard_bytes] : arrays) {
      auto* from = static_cast<const std::byte*>(shard);  // (shard_bytes)
      auto* to = static_cast<std::byte*>(full);           // (size, shard_bytes)
      for (int64_t begin = 0; begin < shard_bytes; begin += max_message_bytes_) {
        const int64_t bytes = std::min(max_message_bytes_, shard_bytes - begin);
        gather_piece(from + begin, to + begin, bytes, shard_bytes);
      }
    }
  }

  void reduce_scatter(const RankCall& call, const void* full, float* shard,
                      int64_t shard_numel, DType type,
                      const SummedPiece& summed) override {
    agree(call);
    const int64_t element = size_of(type);
    const int64_t part_numel =
        std::max<int64_t>(max_message_bytes_ / element / size_ / 64, 1) * 64;
    auto* parts = static_cast<const std::byte*>(full);  // (size, shard_numel)
    std::vector<const void*> sources(size_);
    for (int64_t begin = 0; begin < shard_numel; begin += part_numel) {
      const int64_t numel = std::min(part_numel, shard_numel - begin);
      exchange_parts(parts + begin * element, shard_numel * element, numel * element);
      for (int peer = 0; peer < size_; ++peer) {
        sources[peer] = peer == rank_ ? parts + (rank_ * shard_numel + begin) * element
                                      : scratch_.data() + peer * numel * element;
      }
      tree_sum(sources, type, shard + begin, numel);
      if (summed) summed(begin, begin + numel);
    }
  }

  void broadcast(const RankCall& call, void* data, int64_t bytes, int root) override {
    agree(call);
    for (int64_t begin = 0; begin < bytes; begin += max_message_bytes_) {
      const auto count = static_cast<int>(std::min(max_message_bytes_, bytes - begin));
      MPI_Request request;
      check_mpi(MPI_Ibcast(static_cast<std::byte*>(data) + begin, count, MPI_BYTE, root,
                           comm_, &request),
                "MPI_Ibcast");
      wait({request});
    }
  }

  void barrier(const RankCall& call) override { agree(call); }

  // MPI takes no negative colours: the first rank of each part stands for its colour.
  std::unique_ptr<Transport> split(const RankCall& call, int color) override {
    std::vector<int> color_of(size_);
    all_gather(call, &color, color_of.data(), sizeof(int));
    const auto leader =
        std::find(color_of.begin(), color_of.end(), color) - color_of.begin();
    MPI_Comm part;
    check_mpi(MPI_Comm_split(comm_, static_cast<int>(leader), rank_, &part),
              "MPI_Comm_split");
    return std::make_unique<MpiTransport>(part, max_message_bytes_);
  }

  void leave(const std::string&) noexcept override { has_left_ = true; }
  std::string reason_gone() const override { return ""; }  // mpirun ends who is left

 private:
  void gather_piece(const std::byte* from, std::byte* to, int64_t bytes, int64_t stride) {
    const StridedType piece(bytes, stride);
    const bool is_in_place = from == to + rank_ * stride;
    MPI_Request request;
    check_mpi(MPI_Iallgather(is_in_place ? MPI_IN_PLACE : from, static_cast<int>(bytes),
                             MPI_BYTE, to, 1, piece.get(), comm_, &request),
              "MPI_Iallgather");
    wait({request});
  }

  // Send to each rank its part of full (size parts, part_stride apart); scratch (size,
  // bytes) = the parts for us.
  void exchange_parts(const std::byte* full, int64_t part_stride, int64_t bytes) {
    scratch_.resize(std::max<size_t>(scratch_.size(), size_ * bytes));
    std::vector<MPI_Request> requests;
    const int count = static_cast<int>(bytes);
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + size_ - step) % size_;
      check_mpi(MPI_Irecv(scratch_.data() + peer * bytes, count, MPI_BYTE, peer,
                          kPartsTag, comm_, &requests.emplace_back()),
                "MPI_Irecv");
    }
    // Each step another receiver: no rank is flooded.
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      check_mpi(MPI_Isend(full + peer * part_stride, count, MPI_BYTE, peer, kPartsTag,
                          comm_, &requests.emplace_back()),
                "MPI_Isend");
    }
    wait(std::move(requests));
  }

  void agree(const RankCall& call) {
    std::vector<RankCall> calls(size_);
    const int count = sizeof(RankCall);
    MPI_Request request;
    check_mpi(MPI_Iallgather(&call, count, MPI_BYTE, calls.data(), count, MPI_BYTE, comm_,
                             &request),
              "MPI_Iallgather");
    wait({request});
    require_same_call(calls);
  }

  void wait(std::vector<MPI_Request> requests) {
    const int num_requests = static_cast<int>(requests.size());
    is_under_way_ = true;
    for (int polls = 0;; ++polls) {
      int is_done = 0;
      check_mpi(MPI_Testall(num_requests, requests.data(), &is_done, MPI_STATUSES_IGNORE),
                "MPI_Testall");
      if (is_done) {
        is_under_way_ = false;
        Activity::here().sign();  // a piece has come through
        return;
      }
      if (has_left_) {
        throw Error(ExitCode::kEnvironment, "this rank has left its group",
                    "MpiTransport::wait", "the first error of this rank tells why");
      }
      if (polls < kBusyPolls) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(kPollInterval);
      }
    }
  }

  MPI_Comm comm_;
  const int64_t max_message_bytes_;
  const int rank_ = rank(), size_ = size();
  std::vector<std::byte> scratch_;  // what the others sent for a reduction
  std::atomic<bool> has_left_{false};
  bool is_under_way_ = false;  // a call's messages; after its failure for ever
};

}  // namespace

void check_mpi(int code, const std::string& function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(ExitCode::kEnvironment, function + " failed: " + std::string(text, length),
              "MPI", "see what MPI printed above, and whether another rank has ended");
}

void return_mpi_errors(MPI_Comm comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MPI_Comm duplicate_of(MPI_Comm comm) {
  MPI_Comm duplicate;
  check_mpi(MPI_Comm_dup(comm, &duplicate), "MPI_Comm_dup");
  return_mpi_errors(duplicate);
  return duplicate;
}

Place place_in(MPI_Comm comm) {
  Place place;
  check_mpi(MPI_Comm_rank(comm, &place.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &place.size), "MPI_Comm_size");
  return place;
}

Place local_place_in(MPI_Comm comm) {
  MPI_Comm local;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place_in(comm).rank,
                                MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  const Place place = place_in(local);
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
  return place;
}

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, int64_t max_message_bytes) {
  return std::make_unique<MpiTransport>(comm, max_message_bytes);
}

}  // namespace zero

#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

#include "engine/comm/mpi_check.h"
#include "engine/comm/transport.h"

namespace zero {

// A transport by messages of MPI, for ranks on several hosts.
//
// Waits poll and sleep: MPI_Wait would keep the rank's core busy. Messages are at most
// max_message_bytes, so that counts fit an int and the scratch memory of a reduction
// stays bounded.
class MpiTransport final : public Transport {
 public:
  // Takes the communicator and frees it.
  explicit MpiTransport(MPI_Comm comm, int64_t max_message_bytes);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  void all_gather(const Call& call, const void* shard, void* full,
                  int64_t shard_bytes) override;
  void reduce_scatter(const Call& call, const void* full, float* shard,
                      int64_t shard_numel, DType type,
                      const SummedPiece& summed) override;
  void broadcast(const Call& call, void* data, int64_t bytes, int root) override;
  void barrier(const Call& call) override;
  std::unique_ptr<Transport> split(const Call& call, int color) override;
  void leave(const std::string& reason) noexcept override;

 private:
  void agree(const Call& call);
  void gather_piece(const std::byte* from, std::byte* to, int64_t bytes, int64_t stride);
  void exchange_parts(const std::byte* full, int64_t part_stride, int64_t bytes);
  void wait(MPI_Request request) { wait(std::vector<MPI_Request>{request}); }
  void wait(std::vector<MPI_Request> requests);

  MPI_Comm comm_;
  const int64_t max_message_bytes_;
  const int rank_ = rank(), size_ = size();
  std::vector<std::byte> scratch_;  // what the others sent for a reduction
  std::atomic<bool> has_left_{false};
};

}  // namespace zero

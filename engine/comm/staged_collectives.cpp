// Collectives for ranks that cannot tell each other what is in their GPU's memory: it
// goes through the host's, piece by piece. Two buffers let one be copied while the next
// is exchanged.
#include <algorithm>
#include <cassert>
#include <list>

#include "engine/comm/collectives.h"
#include "engine/device/device.h"

namespace zero {
namespace {

class StagedCollectives final : public Collectives {
 public:
  StagedCollectives(std::unique_ptr<Collectives> host, Device& device,
                    std::span<std::byte> memory)
      : host_(std::move(host)),
        buffer_bytes_(std::ssize(memory) / kNumBuffers),
        worker_(device.make_worker("exchange")) {
    for (int i = 0; i < kNumBuffers; ++i)
      buffers_.emplace_back().memory = memory.data() + i * buffer_bytes_;
  }
  ~StagedCollectives() override {
    host_.reset();  // what is queued fails
    worker_.reset();
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_gather(std::span<const GatheredArray> arrays, const std::string& tag,
                  Stream& stream) override {
    begin(stream);
    for (const GatheredArray& array : arrays) gather(array, tag, stream);
  }

  void reduce_scatter(void* full, float* shard, int64_t shard_numel, DType type,
                      SumOrder order, const std::string& tag, Stream& stream,
                      const SummedPiece& summed) override {
    const int64_t element = size_of(type);
    const auto* from = static_cast<const std::byte*>(full);
    begin(stream);
    for_pieces(shard_numel, element, [&](int64_t offset, int64_t numel) {
      Buffer& buffer = next(stream);
      for (int r = 0; r < size(); ++r) {
        stream.copy(buffer.memory + r * numel * element,
                    from + (r * shard_numel + offset) * element, numel * element);
      }
      hand_over(buffer.filled, stream, *worker_);
      SummedPiece behind;
      if (summed) {
        behind = [summed, offset](int64_t first, int64_t last) {
          summed(offset + first, offset + last);
        };
      }
      host_->reduce_scatter(buffer.memory, shard + offset, numel, type, order, tag,
                            *worker_, behind);
      worker_->record(buffer.read);
    });
    hand_over(done_, *worker_, stream);
  }

  void all_reduce(std::span<double> values, SumOrder order, const std::string& tag,
                  Stream& stream) override {
    host_->all_reduce(values, order, tag, *worker_);  // they are the host's already
    hand_over(done_, *worker_, stream);
  }

 private:
  static constexpr int kNumBuffers = 2;

  struct Buffer {
    std::byte* memory = nullptr;
    Event filled, read;
  };

  static void hand_over(Event& event, Stream& from, Stream& to) {
    from.record(event);
    to.wait(event);
  }

  void gather(const GatheredArray& array, const std::string& tag, Stream& stream) {
    const auto* from = static_cast<const std::byte*>(array.shard);
    auto* to = static_cast<std::byte*>(array.full);
    for_pieces(array.shard_bytes, 1, [&](int64_t offset, int64_t bytes) {
      Buffer& buffer = next(*worker_);
      host_->all_gather(from + offset, buffer.memory, bytes, tag, *worker_);
      hand_over(buffer.filled, *worker_, stream);
      for (int r = 0; r < size(); ++r)
        stream.copy(to + r * array.shard_bytes + offset, buffer.memory + r * bytes,
                    bytes);
      stream.record(buffer.read);
    });
  }

  // What is queued on the stream comes before what the worker does.
  void begin(Stream& stream) { hand_over(called_, stream, *worker_); }

  // The buffer that was taken first, once it has been read, for `stream` to fill.
  Buffer& next(Stream& stream) {
    buffers_.splice(buffers_.end(), buffers_, buffers_.begin());
    stream.wait(buffers_.back().read);
    return buffers_.back();
  }

  // Of `count` elements per rank, as many at a time as a buffer holds of all ranks, in
  // whole leaves of 64.
  template <class Body>
  void for_pieces(int64_t count, int64_t element_bytes, const Body& body) {
    const int64_t most = buffer_bytes_ / size() / element_bytes / 64 * 64;
    assert(most > 0);
    for (int64_t offset = 0; offset < count; offset += most)
      body(offset, std::min(most, count - offset));
  }

  std::unique_ptr<Collectives> host_;
  const int64_t buffer_bytes_;
  std::list<Buffer> buffers_;  // in the order in which they were taken last
  Event called_, done_;
  std::unique_ptr<HostStream> worker_;
};

}  // namespace

std::unique_ptr<Collectives> make_staged_collectives(std::unique_ptr<Collectives> host,
                                                     Device& device,
                                                     std::span<std::byte> memory) {
  return std::make_unique<StagedCollectives>(std::move(host), device, memory);
}

}  // namespace zero

#include <atomic>

#include "engine/comm/channel.h"
#include "engine/comm/hang_post.h"
#include "engine/comm/shared_transport.h"
#include "zero/ranks.h"

namespace zero {
namespace {

// One message on its way. Zeroed memory is an empty box.
struct Mailbox {
  std::atomic<uint32_t> is_full;
  HangMessage message;
};

constexpr int kNumKinds = 3;

// A box for each receiver, sender and kind.
class SharedHangPost final : public HangPost {
 public:
  explicit SharedHangPost(Ranks& ranks) : rank_(ranks.rank()), size_(ranks.size()) {
    Neighbours& neighbours = neighbours_of(ranks.channel().transport());
    const int64_t bytes =
        int64_t{size_} * size_ * kNumKinds * static_cast<int64_t>(sizeof(Mailbox));
    MemoryTicket ticket;
    if (rank_ == 0) memory_ = neighbours.create(bytes, ticket);
    ranks.broadcast(&ticket, sizeof ticket, 0, "memory of the watch");
    if (rank_ != 0) memory_ = neighbours.open(ticket, bytes);
    ranks.barrier("memory of the watch is open");
  }

  void send(int peer, const HangMessage& message) override {
    Mailbox& box = box_of(peer, rank_, static_cast<int>(message.kind));
    if (box.is_full.load(std::memory_order_acquire) != 0) return;  // says the same
    box.message = message;
    box.is_full.store(1, std::memory_order_release);
  }

  std::optional<std::pair<int, HangMessage>> receive() override {
    for (int peer = 0; peer < size_; ++peer) {
      for (int kind = 0; kind < kNumKinds; ++kind) {
        Mailbox& box = box_of(rank_, peer, kind);
        if (box.is_full.load(std::memory_order_acquire) == 0) continue;
        const HangMessage message = box.message;
        box.is_full.store(0, std::memory_order_release);
        return {{peer, message}};
      }
    }
    return std::nullopt;
  }

 private:
  Mailbox& box_of(int receiver, int sender, int kind) const {
    const int64_t index = (int64_t{receiver} * size_ + sender) * kNumKinds + kind;
    return reinterpret_cast<Mailbox*>(memory_.get())[index];
  }

  const int rank_, size_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace

std::unique_ptr<HangPost> make_shared_hang_post(Ranks& ranks) {
  return std::make_unique<SharedHangPost>(ranks);
}

}  // namespace zero

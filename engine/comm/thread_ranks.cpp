#include "engine/comm/thread_ranks.h"

#include <atomic>
#include <cassert>

#include "engine/comm/shared_transport.h"

namespace zero {

namespace {

// Memory of the process, counted by its users.
struct Block : std::enable_shared_from_this<Block> {
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  explicit Block(int64_t bytes) : pages((bytes + sizeof(Page) - 1) / sizeof(Page)) {}
  std::shared_ptr<std::byte> bytes() { return {shared_from_this(), pages[0].bytes}; }

  std::vector<Page> pages;
};

std::atomic<bool> are_ranks_threads{false};

class ThreadNeighbours final : public Neighbours {
 public:
  std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket& ticket) override {
    auto block = std::make_shared<Block>(bytes);
    ticket = {{reinterpret_cast<int64_t>(block.get())}};
    return block->bytes();
  }
  std::shared_ptr<std::byte> open(const MemoryTicket& ticket, int64_t) override {
    return reinterpret_cast<Block*>(ticket.words[0])->bytes();
  }
  Identity self() const override { return {}; }
  std::string reason_gone(const Identity&) const override { return ""; }
};

}  // namespace

std::vector<std::unique_ptr<Ranks>> make_thread_ranks(int size, int64_t slot_bytes) {
  assert(size >= 1);
  if (size > 1) are_ranks_threads = true;
  if (slot_bytes == 0) slot_bytes = kDefaultSlotBytes;
  auto neighbours = std::make_shared<ThreadNeighbours>();
  MemoryTicket ticket;
  SharedArea area(neighbours->create(SharedArea::bytes_for(size, slot_bytes), ticket),
                  size, slot_bytes);
  std::vector<std::unique_ptr<Ranks>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(
        std::make_unique<Ranks>(make_shared_transport(neighbours, area, rank)));
  }
  return ranks;
}

std::unique_ptr<Ranks> make_one_rank() { return std::move(make_thread_ranks(1)[0]); }

bool ranks_are_threads() { return are_ranks_threads; }

}  // namespace zero

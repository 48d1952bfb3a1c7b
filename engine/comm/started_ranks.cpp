#include "engine/comm/started_ranks.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/text.h"
#include "engine/comm/shared_transport.h"
#include "zero/errors.h"

namespace zero {
namespace {

// "RANK SIZE STARTER SLOT_BYTES" and the words of the ticket.
std::istream& operator>>(std::istream& in, StartedRank& self) {
  in >> self.rank >> self.size >> self.starter >> self.slot_bytes;
  for (int64_t& word : self.memory.words) in >> word;
  return in;
}

std::ostream& operator<<(std::ostream& out, const StartedRank& self) {
  out << self.rank << ' ' << self.size << ' ' << self.starter << ' ' << self.slot_bytes;
  for (const int64_t word : self.memory.words) out << ' ' << word;
  return out;
}

}  // namespace

std::optional<StartedRank> started_rank(const std::string& text) {
  std::istringstream words(text);
  StartedRank self;
  const bool is_whole = (words >> self) && (words >> std::ws).eof();
  if (!is_whole || self.rank < 0 || self.rank >= self.size || self.slot_bytes <= 0) {
    throw Error(ExitCode::kEnvironment,
                text_of(kStarterVariable, " is '", printable(text),
                        "', which no starter has set"),
                "the environment", text_of("unset ", kStarterVariable));
  }
  if (self.starter != getppid()) return std::nullopt;
  return self;
}

std::optional<StartedRank> started_rank() {
  const char* const text = std::getenv(kStarterVariable);
  return text ? started_rank(text) : std::nullopt;
}

StarterMemory::StarterMemory(int size, int64_t slot_bytes)
    : size_(size),
      starter_(getpid()),
      slot_bytes_(slot_bytes > 0 ? slot_bytes : kDefaultSlotBytes),
      neighbours_(make_process_neighbours()),
      memory_(neighbours_->create(SharedArea::bytes_for(size, slot_bytes_), ticket_)) {}

std::string StarterMemory::variable_for(int rank) const {
  std::ostringstream text;
  text << kStarterVariable << '='
       << StartedRank{rank, size_, starter_, slot_bytes_, ticket_};
  return text.str();
}

std::unique_ptr<Ranks> join_started_ranks(const StartedRank& self) {
  auto neighbours = make_process_neighbours();
  SharedArea area(
      neighbours->open(self.memory, SharedArea::bytes_for(self.size, self.slot_bytes)),
      self.size, self.slot_bytes);
  return std::make_unique<Ranks>(
      make_shared_transport(std::move(neighbours), std::move(area), self.rank));
}

}  // namespace zero

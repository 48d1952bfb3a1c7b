#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace zero {

class Ranks;

// What the watches of two ranks tell each other (HangWatch).
struct HangMessage {
  enum class Kind : int64_t { kQuestion, kAnswer, kLeave };

  Kind kind = Kind::kQuestion;
  uint64_t signs = 0;
  int64_t is_waiting = 0;
  char where[232] = {};
};
static_assert(std::is_trivially_copyable_v<HangMessage>);

// How such messages travel. Nobody waits: a message to a rank that does not listen stays
// where it is. At most one of each kind is under way from one rank to another.
class HangPost {
 public:
  virtual ~HangPost() = default;
  virtual void send(int peer, const HangMessage& message) = 0;
  // The next one that has come, and the rank that sent it; nothing: there is none.
  virtual std::optional<std::pair<int, HangMessage>> receive() = 0;
};

// Through memory that these ranks share, those of started_ranks.h; collective.
std::unique_ptr<HangPost> make_shared_hang_post(Ranks& ranks);

}  // namespace zero

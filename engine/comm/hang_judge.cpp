#include "engine/comm/hang_judge.h"

#include <algorithm>
#include <numeric>
#include <ranges>

namespace zero {
namespace {

constexpr double kMostAtOnce = 1;    // second that counts of the time between two looks
constexpr double kAskAfter = 1;      // seconds in one collective
constexpr double kAnswerWithin = 3;  // an answer takes a second at most

}  // namespace

HangJudge::HangJudge(int rank, int size, const HangLimits& limits)
    : rank_(rank), limits_(limits), peers_(size) {}

void HangJudge::pass(double seconds, uint64_t call) {
  if (call == 0 || call != call_) {
    for (Peer& peer : peers_) peer = {};
    call_ = call;
    waited_ = 0;
    has_named_ = false;
    return;
  }
  const double counted = std::min(seconds, kMostAtOnce);
  waited_ += counted;
  for (Peer& peer : peers_) {
    peer.silent += counted;
    peer.unheard += counted;
  }
}

void HangJudge::hear(int peer, const RankWord& word) {
  Peer& from = peers_[peer];
  if (word.signs != from.word.signs || word.is_waiting != from.word.is_waiting)
    from.silent = 0;
  from.unheard = 0;
  from.word = word;
}

bool HangJudge::asks() const { return waited_ > kAskAfter; }

bool HangJudge::hears(int peer) const { return peers_[peer].unheard < kAnswerWithin; }

bool HangJudge::is_missing(int peer, double limit) const {
  if (peer == rank_ || peers_[peer].silent < limit) return false;
  return !hears(peer) || !peers_[peer].word.is_waiting;
}

std::vector<int> HangJudge::missing(double limit) const {
  std::vector<int> ranks;
  if (waited_ < limit) return ranks;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (is_missing(peer, limit)) ranks.push_back(peer);
  }
  const bool nobody_moves = std::ranges::all_of(peers_, [&](const Peer& peer) {
    return &peer == &peers_[rank_] || (peer.silent >= limit && peer.word.is_waiting);
  });
  if (ranks.empty() && nobody_moves) {
    ranks.resize(peers_.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

bool HangJudge::is_first_to_wait() const {
  for (int peer = 0; peer < rank_; ++peer) {
    if (hears(peer) && peers_[peer].word.is_waiting) return false;
  }
  return true;
}

std::vector<int> HangJudge::to_name() {
  if (has_named_) return {};
  std::vector<int> ranks = missing(limits_.notice);
  if (ranks.empty()) return {};
  has_named_ = true;
  return is_first_to_wait() ? ranks : std::vector<int>();
}

bool HangJudge::gives_up() const {
  return limits_.give_up > 0 && !missing(limits_.give_up).empty();
}

}  // namespace zero

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

// How long nobody may be heard of; in seconds.
struct HangLimits {
  double notice = 30;    // until the ranks that others wait for are named
  double give_up = 600;  // until all leave; 0: never
};

// What a rank says of itself.
struct RankWord {
  uint64_t signs = 0;       // grows with its work (Activity)
  bool is_waiting = false;  // in a collective
  std::string where;
};

// Judge from one rank who keeps the others waiting.
//
// Time is what the caller passes on, a second at a time at most, so that neither a
// suspended machine nor a stopped process ages. A rank is missing when this one waits in
// one collective, and that rank is either not heard of, or is not in a collective itself
// and gave no sign of work; each for as long as a limit says. Where all wait and nobody
// moves, all are missing.
class HangJudge {
 public:
  HangJudge(int rank, int size, const HangLimits& limits);

  // So much time has passed since the last call, and a second counts of it at most;
  // `call` is the collective that this rank has been in, 0: none.
  void pass(double seconds, uint64_t call);
  void hear(int peer, const RankWord& word);

  // This rank waits long enough to ask what the others do.
  bool asks() const;
  bool hears(int peer) const;  // an answer came lately
  const RankWord& word_of(int peer) const { return peers_[peer].word; }

  // The ranks to be named now: once in a wait, and by one rank only, the lowest of those
  // that wait and answer. Empty: nobody, or not by this one.
  std::vector<int> to_name();
  bool gives_up() const;

 private:
  struct Peer {
    RankWord word;
    double silent = 0;     // since its last sign, while this rank waits
    double unheard = 1e9;  // since its last answer, likewise; at first there is none
  };

  bool is_missing(int peer, double limit) const;
  std::vector<int> missing(double limit) const;
  bool is_first_to_wait() const;

  const int rank_;
  const HangLimits limits_;
  std::vector<Peer> peers_;
  uint64_t call_ = 0;
  double waited_ = 0;
  bool has_named_ = false;
};

}  // namespace zero

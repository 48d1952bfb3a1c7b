#pragma once

#include <cstdint>
#include <span>

#include "base/host_device.h"
#include "offload/optimizer.h"

namespace zero {

class ThreadPool;

// What updates have seen of a parameter, each 0 or 1: whether one had a gradient other
// than 0, and whether one changed a bit of a master. Large enough to lie beside others
// that a GPU writes.
struct alignas(16) Movement {
  uint32_t had_gradient = 0, moved = 0;

  ZERO_HOST_DEVICE bool is_known() const { return had_gradient != 0 && moved != 0; }
  bool operator==(const Movement&) const = default;
};

// What an update writes beside copies: masters and states, each in one of two types.
struct UpdatedValues {
  float* master = nullptr;
  uint16_t* master_low = nullptr;  // instead of masters: their low halves, beside a copy
  float* state[kMaxStates] = {};   // as many as the rule has
  uint16_t* state_bf16[kMaxStates] = {};  // or else these
};

// One contiguous piece of parameters: the master weights, the optimizer's state and this
// step's gradient. The arrays do not overlap; their alignment does not matter.
//
// Masters are fp32, or split (see stored_values.h): then their high halves are copy_bf16.
// States are fp32 or bf16, all alike, and rounded to nearest even after the arithmetic.
struct UpdatePiece {
  const float* grad = nullptr;          // (numel) fp32; or else
  const uint16_t* grad_bf16 = nullptr;  // (numel) bf16; exactly one of the two is given
  float* master = nullptr;              // (numel) updated; or else
  uint16_t* master_low = nullptr;       // (numel) their low halves
  float* state[kMaxStates] = {};        // (numel) each, updated; as many as the rule has
  uint16_t* state_bf16[kMaxStates] = {};  // or else these
  // Where masters and states are read that are then written to those above, and stay as
  // they are. Of the same types; null: they are read where they are written.
  UpdatedValues old = {};
  // (numel) written, with old.master_low: what copy_bf16 held, their high halves.
  uint16_t* old_high = nullptr;
  // (numel) written: master in 16 bits, in one of two types; both may be null.
  uint16_t* copy_bf16 = nullptr;
  uint16_t* copy_fp16 = nullptr;
  Movement* movement = nullptr;  // what is seen is set there; null: nobody asks
  int64_t numel = 0;
};

// Its elements [begin, end).
UpdatePiece part_of(const UpdatePiece& piece, int64_t begin, int64_t end);

// A piece and what is done to it.
struct Update {
  UpdatePiece piece;
  UpdateRule rule;
};

// Throw std::invalid_argument for a negative numel, no gradient or two of them, a master
// or one of the rule's states that is missing or there twice, two copies, or old values
// of which one is missing.
void check_piece(const UpdatePiece& piece, int num_states);

// Do one step on all pieces in one sweep: each byte is read once and written once.
//
// Pieces are shared out among the threads as if they were one. A copy is the new master
// rounded to nearest even, or its high half. The bits depend neither on position,
// split, thread count nor instruction set (a NaN's payload may). Throws as
// check_piece() does, before anything changes.
void update(std::span<const Update> updates, ThreadPool& pool);

// Touch every page of the pieces with the thread that update() will give it to; no value
// changes. Memory that nobody has touched before then lies near the core that sweeps it.
void touch(std::span<const Update> updates, ThreadPool& pool);

// What a thread gets at a time, about 1 MiB in all arrays: long enough to stream, short
// enough to share out.
inline constexpr int64_t kUpdateChunkNumel = 1 << 16;

}  // namespace zero

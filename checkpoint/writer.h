#pragma once

#include <string>
#include <vector>

#include "checkpoint/buffer.h"
#include "checkpoint/file.h"
#include "checkpoint/slices.h"

namespace zero::checkpoint {

// Write one rank's shard file, a slice at a time, make it durable, and tell what is
// there.
//
// `folder` is what prepare() made on rank 0. Every rank writes a file, also one that owns
// nothing. On any failure CheckpointError is thrown and the file is of no use: discard()
// the folder and begin anew. Any thread may use it, one at a time.
class ShardWriter {
 public:
  // Makes the file, and plans the place of all slices in it.
  ShardWriter(const std::string& folder, int rank, int world_size,
              std::vector<Slice> slices, Io& io = system_io());

  int64_t num_slices() const { return std::ssize(slices_); }
  // Each slice once, in any order.
  void write(int64_t slice);
  ShardReport finish();

 private:
  const char* take(const Slice& slice, int64_t at, int64_t bytes, Piece& piece);
  void write_bytes(const char* from, int64_t bytes, int64_t offset);

  const std::vector<Slice> slices_;
  Io& io_;
  File file_;
  ShardReport report_;
  Buffer room_;  // for a few chunks, aligned as disks want it
  int64_t unsynced_bytes_ = 0;
};

// All of it at once.
ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        const std::vector<Slice>& slices, Io& io = system_io());

}  // namespace zero::checkpoint

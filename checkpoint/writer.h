#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/slices.h"

namespace zero::checkpoint {

// Write one rank's shard file, a slice at a time.
//
// The constructor lays the file out, so the slices' `data` need not be ready then; each
// is read by its write() alone, in any order. Every rank writes a file, also one that
// owns nothing. On any failure CheckpointError is thrown and the file is of no use:
// discard() the folder and begin anew. One thread at a time.
class ShardWriter {
 public:
  // `folder` is what prepare() made on rank 0.
  ShardWriter(const std::string& folder, int rank, int world_size,
              std::vector<Slice> slices, Io& io = system_io());

  void write(size_t index);                    // its own data
  void write(size_t index, const void* data);  // num_bytes() of slice `index`
  ShardReport finish();  // after every slice: make the bytes durable, tell what is there

  size_t num_slices() const { return slices_.size(); }

 private:
  void write(size_t index,
             const std::function<const char*(int64_t at, int64_t bytes)>& bytes_at);
  void lay_out();
  void sync();

  std::vector<Slice> slices_;
  Io& io_;
  File file_;
  ShardReport report_;
  int64_t unsynced_bytes_ = 0;
};

// Write a shard whose data are all ready.
ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        std::vector<Slice> slices, Io& io = system_io());

}  // namespace zero::checkpoint

#pragma once

#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/slices.h"

namespace zero::checkpoint {

// Write one rank's shard file, make it durable, and tell what is there.
//
// `folder` is what prepare() made on rank 0. Every rank writes a file, also one that owns
// nothing. On any failure CheckpointError is thrown and the file is of no use: discard()
// the folder and begin anew.
ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        const std::vector<Slice>& slices, Io& io = system_io());

}  // namespace zero::checkpoint

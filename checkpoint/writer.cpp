#include "checkpoint/writer.h"

#include <algorithm>
#include <cassert>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/h5_files.h"
#include "checkpoint/io.h"
#include "checkpoint/ranges.h"

namespace zero::checkpoint {
namespace {

File create_shard(const std::string& folder, int rank, int world_size, Io& io) {
  assert(0 <= rank && rank < world_size && world_size <= kMaxWorldSize);
  return Folder(folder).create(shard_file(rank, world_size), io);
}

// Take what HDF5 wrote around the slices; the slices themselves come later.
ShardReport lay_out(const std::vector<Slice>& slices, int rank, int world_size,
                    File& file, Io& io) {
  const Layout layout = lay_out_shard(slices);
  ShardReport report{rank, world_size, {shard_file(rank, world_size)}, {}};
  std::vector<Range> taken;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    StoredTensor& tensor = report.tensors.emplace_back(slice.tensor);
    if (slice.numel == 0) continue;
    const Range range{layout.offsets[i], slice.num_bytes()};
    tensor.pieces = {{report.file.name, slice.begin, range.begin, range.bytes, {}}};
    taken.push_back(range);
  }
  report.file.bytes = layout.image.size_bytes();
  file.announce_size(report.file.bytes);
  report.file.hash = copy_ranges(
      layout.image, gaps_between(std::move(taken), report.file.bytes), file, io);
  return report;
}

// `chunk` is room for those that are fetched.
const char* bytes_at(const Slice& slice, int64_t at, int64_t bytes,
                     std::vector<char>& chunk) {
  if (!slice.fetch) return static_cast<const char*>(slice.data) + at;
  const int64_t element_bytes = size_of(slice.tensor.dtype);
  chunk.resize(bytes);
  slice.fetch(at / element_bytes, bytes / element_bytes, chunk.data());
  return chunk.data();
}

// Syncs now and then, so that the last one does not stand still for minutes.
void write_slices(const std::vector<Slice>& slices, ShardReport& report, File& file,
                  Io& io) {
  int64_t unsynced_bytes = 0;
  std::vector<char> chunk;
  for (size_t i = 0; i < slices.size(); ++i) {
    assert(slices[i].fetch || slices[i].data || slices[i].numel == 0);
    for (Piece& piece : report.tensors[i].pieces) {
      for (int64_t at = 0; at < piece.bytes; at += kChunkBytes) {
        const int64_t bytes = std::min(kChunkBytes, piece.bytes - at);
        const char* from = bytes_at(slices[i], at, bytes, chunk);
        piece.hashes.push_back(hash_of(from, bytes));
        file.write(from, bytes, piece.offset + at, io);
        note_work(bytes);
        if ((unsynced_bytes += bytes) < kSyncBytes) continue;
        file.sync(io);
        unsynced_bytes = 0;
      }
    }
  }
  file.sync(io);
}

}  // namespace

ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        const std::vector<Slice>& slices, Io& io) {
  check_slices(slices, rank);
  File file = create_shard(folder, rank, world_size, io);
  ShardReport report = lay_out(slices, rank, world_size, file, io);
  write_slices(slices, report, file, io);
  if (file.size_bytes() != report.file.bytes) {
    throw CheckpointError(file.path(), "",
                          text_of("has ", file.size_bytes(), " bytes, ",
                                  report.file.bytes, " were written"),
                          "does another program write there?");
  }
  return report;
}

}  // namespace zero::checkpoint

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

[[maybe_unused]] bool is_written(const StoredTensor& tensor) {
  return tensor.pieces.empty() || !tensor.pieces.front().hashes.empty();
}

std::vector<Slice> checked(std::vector<Slice> slices, int rank) {
  check_slices(slices, rank);
  return slices;
}

}  // namespace

ShardWriter::ShardWriter(const std::string& folder, int rank, int world_size,
                         std::vector<Slice> slices, Io& io)
    : slices_(checked(std::move(slices), rank)),
      io_(io),
      file_(create_shard(folder, rank, world_size, io)) {
  report_.rank = rank;
  report_.world_size = world_size;
  report_.file.name = shard_file(rank, world_size);
  lay_out();
}

// Take what HDF5 wrote around the slices; the slices themselves come later.
void ShardWriter::lay_out() {
  const Layout layout = lay_out_shard(slices_);
  std::vector<Range> taken;
  for (size_t i = 0; i < slices_.size(); ++i) {
    const Slice& slice = slices_[i];
    StoredTensor& tensor = report_.tensors.emplace_back(slice.tensor);
    if (slice.numel == 0) continue;
    const Range range{layout.offsets[i], slice.num_bytes()};
    tensor.pieces = {{report_.file.name, slice.begin, range.begin, range.bytes, {}}};
    taken.push_back(range);
  }
  FileEntry& file = report_.file;
  file.bytes = layout.image.size_bytes();
  file_.announce_size(file.bytes);
  file.hash =
      copy_ranges(layout.image, gaps_between(std::move(taken), file.bytes), file_, io_);
}

void ShardWriter::write(size_t index) {
  const Slice& slice = slices_.at(index);
  if (!slice.fetch) return write(index, slice.data);
  const int64_t element_bytes = size_of(slice.tensor.dtype);
  std::vector<char> chunk;
  write(index, [&](int64_t at, int64_t bytes) {
    chunk.resize(bytes);
    slice.fetch(at / element_bytes, bytes / element_bytes, chunk.data());
    return chunk.data();
  });
}

void ShardWriter::write(size_t index, const void* data) {
  assert(data != nullptr || slices_.at(index).numel == 0);
  write(index,
        [data](int64_t at, int64_t) { return static_cast<const char*>(data) + at; });
}

void ShardWriter::write(
    size_t index, const std::function<const char*(int64_t at, int64_t bytes)>& bytes_at) {
  if (report_.tensors.at(index).pieces.empty()) return;
  Piece& piece = report_.tensors[index].pieces.front();
  assert(piece.hashes.empty());  // a second write would leave hashes of the first
  for (int64_t at = 0; at < piece.bytes; at += kChunkBytes) {
    const int64_t bytes = std::min(kChunkBytes, piece.bytes - at);
    const char* from = bytes_at(at, bytes);
    piece.hashes.push_back(hash_of(from, bytes));
    file_.write(from, bytes, piece.offset + at, io_);
    unsynced_bytes_ += bytes;
    if (unsynced_bytes_ >= kSyncBytes) sync();
    note_work(static_cast<int64_t>(bytes));
  }
}

// Now and then, so that the last one does not stand still for minutes.
void ShardWriter::sync() {
  file_.sync(io_);
  unsynced_bytes_ = 0;
}

ShardReport ShardWriter::finish() {
  assert(std::ranges::all_of(report_.tensors, is_written));
  sync();
  if (file_.size_bytes() != report_.file.bytes) {
    throw CheckpointError(file_.path(), "",
                          text_of("has ", file_.size_bytes(), " bytes, ",
                                  report_.file.bytes, " were written"),
                          "does another program write there?");
  }
  return std::move(report_);
}

ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        std::vector<Slice> slices, Io& io) {
  ShardWriter writer(folder, rank, world_size, std::move(slices), io);
  for (size_t i = 0; i < writer.num_slices(); ++i) writer.write(i);
  return writer.finish();
}

}  // namespace zero::checkpoint

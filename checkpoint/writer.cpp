#include "checkpoint/writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/h5_files.h"
#include "checkpoint/io.h"
#include "checkpoint/ranges.h"

namespace zero::checkpoint {
namespace {

// That go to the disk at once: a disk is faster with many.
constexpr int64_t kBytesAtOnce = 4 * kChunkBytes;

File create_shard(const std::string& folder, int rank, int world_size, Io& io) {
  assert(0 <= rank && rank < world_size && world_size <= kMaxWorldSize);
  return Folder(folder).create(shard_file(rank, world_size), io);
}

// The file's size, and what of it HDF5 wrote around the slices, which come later.
ShardReport lay_out(const std::vector<Slice>& slices, int rank, int world_size,
                    File& file, Io& io) {
  const auto layout = of_file(file.path(), [&] { return lay_out_shard(slices); });
  ShardReport report{rank, world_size, {shard_file(rank, world_size)}, {}};
  std::vector<Range> taken;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    StoredTensor& tensor = report.tensors.emplace_back(slice.tensor);
    if (slice.numel == 0) continue;
    const Range range{layout->offsets[i], slice.num_bytes()};
    tensor.pieces = {{report.file.name, slice.begin, range.begin, range.bytes, {}}};
    taken.push_back(range);
  }
  report.file.bytes = layout->image.size_bytes();
  file.announce_size(report.file.bytes);
  report.file.hash = copy_ranges(
      layout->image, gaps_between(std::move(taken), report.file.bytes), &file, io);
  return report;
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
      file_(create_shard(folder, rank, world_size, io)),
      report_(lay_out(slices_, rank, world_size, file_, io)),
      room_(kBytesAtOnce) {}

void ShardWriter::write(int64_t index) {
  const Slice& slice = slices_[index];
  assert(slice.fetch || slice.data || slice.numel == 0);
  for (Piece& piece : report_.tensors[index].pieces) {
    for (int64_t at = 0; at < piece.bytes; at += kBytesAtOnce) {
      const int64_t bytes = std::min(kBytesAtOnce, piece.bytes - at);
      write_bytes(take(slice, at, bytes, piece), bytes, piece.offset + at);
    }
  }
}

// The bytes, whose hashes the piece gets, in the slice's own memory or in `room_`.
const char* ShardWriter::take(const Slice& slice, int64_t at, int64_t bytes,
                              Piece& piece) {
  const char* from = static_cast<const char*>(slice.data) + at;
  if (slice.fetch) {
    const int64_t element_bytes = size_of(slice.tensor.dtype);
    slice.fetch(at / element_bytes, bytes / element_bytes, room_.data());
    from = room_.data();
  }
  const bool is_copied = !file_.takes(from);
  for (int64_t done = 0; done < bytes; done += kChunkBytes) {
    const int64_t chunk = std::min(kChunkBytes, bytes - done);
    piece.hashes.push_back(hash_of(from + done, chunk));
    if (is_copied) std::memcpy(room_.data() + done, from + done, chunk);
  }
  return is_copied ? room_.data() : from;
}

// Syncs now and then, so that the last one does not stand still for minutes.
void ShardWriter::write_bytes(const char* from, int64_t bytes, int64_t offset) {
  file_.write_direct(from, bytes, offset, io_);
  note_work(bytes);
  if ((unsynced_bytes_ += bytes) < kSyncBytes) return;
  file_.sync(io_);
  unsynced_bytes_ = 0;
}

ShardReport ShardWriter::finish() {
  file_.sync(io_);
  if (file_.size_bytes() != report_.file.bytes) {
    throw CheckpointError(file_.path(), "",
                          text_of("has ", file_.size_bytes(), " bytes, ",
                                  report_.file.bytes, " were written"),
                          "does another program write there?");
  }
  return std::move(report_);
}

ShardReport write_shard(const std::string& folder, int rank, int world_size,
                        const std::vector<Slice>& slices, Io& io) {
  ShardWriter writer(folder, rank, world_size, slices, io);
  for (int64_t i = 0; i < writer.num_slices(); ++i) writer.write(i);
  return writer.finish();
}

}  // namespace zero::checkpoint

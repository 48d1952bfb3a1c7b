#include "checkpoint/chunk_reader.h"

#include <algorithm>
#include <chrono>

#include "base/hash.h"
#include "base/seconds.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/io.h"

namespace zero::checkpoint {

Range chunk_range(const Piece& piece, size_t first, size_t last) {
  const int64_t begin = static_cast<int64_t>(first) * kChunkBytes;
  const int64_t end = std::min(static_cast<int64_t>(last) * kChunkBytes, piece.bytes);
  return {piece.offset + begin, end - begin};
}

File& ChunkReader::open(const std::string& name) {
  if (file_ && name_ == name) return *file_;
  file_.reset();
  file_.emplace(folder_.open(name));
  file_->expect_to_be_asked();
  roads_ = &DiskRoads::of(*file_);
  name_ = name;
  return *file_;
}

// Past the cache all at once, as a disk likes it; else one by one.
const char* ChunkReader::read(const StoredTensor& tensor, const Piece& piece,
                              size_t first, size_t last, char* place, Audience audience) {
  open(piece.file);
  const Range range = chunk_range(piece, first, last);
  const bool is_cached = file_->is_cached(range.begin, range.bytes);
  std::optional<Road> road;
  if (!is_cached && audience == Audience::kOne) road = roads_->next(range.bytes);
  const bool is_good =
      place != nullptr && Buffer::is_good_place(place) && road != Road::kDirect;
  char* out = is_good ? place : chunks_.data();
  if (road == Road::kDirect) naming(tensor.fqn, [&] { fetch(out, range, road); });
  char* to = out;
  for (size_t i = first; i < last; ++i, to += kChunkBytes) {
    const Range chunk = chunk_range(piece, i, i + 1);
    naming(tensor.fqn, [&] {
      if (is_cached) return check(tensor, piece, i, copy_and_hash(to, chunk));
      if (road != Road::kDirect) fetch(to, chunk, road);
      check(tensor, piece, i, hash_of(to, static_cast<size_t>(chunk.bytes)));
    });
  }
  return out;
}

// In parts that are hashed while they are in the processor's cache.
uint64_t ChunkReader::copy_and_hash(char* out, const Range& range) {
  constexpr int64_t kPartBytes = int64_t{256} << 10;
  Hasher hasher;
  for (int64_t at = 0; at < range.bytes; at += kPartBytes) {
    const auto bytes = static_cast<size_t>(std::min(kPartBytes, range.bytes - at));
    file_->read(out + at, bytes, range.begin + at);
    hasher.add(out + at, bytes);
  }
  return hasher.digest();
}

void ChunkReader::fetch(char* out, const Range& range, std::optional<Road> road) {
  const auto bytes = static_cast<size_t>(range.bytes);
  const auto start = std::chrono::steady_clock::now();
  if (road == Road::kDirect)
    file_->read_direct(out, bytes, range.begin);
  else
    file_->read(out, bytes, range.begin);
  if (road) roads_->tell(*road, range.bytes, seconds_since(start));
}

void ChunkReader::check(const StoredTensor& tensor, const Piece& piece, size_t index,
                        uint64_t hash) const {
  const Range range = chunk_range(piece, index, index + 1);
  note_work(range.bytes);
  if (hash == piece.hashes.at(index)) return;
  const std::string what = tensor.kind == Kind::kParam
                               ? "the values are"
                               : text_of(name_of(tensor.kind), " is");
  throw CheckpointError(
      file_->path(), tensor.fqn,
      text_of(what, " damaged: bytes ", range.begin, " to ",
              range.begin + range.bytes - 1, " do not have the hash that was recorded"),
      "use another checkpoint");
}

}  // namespace zero::checkpoint

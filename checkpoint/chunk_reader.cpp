#include "checkpoint/chunk_reader.h"

#include <algorithm>
#include <chrono>

#include "base/hash.h"
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

// Past the cache all at once, as a disk likes it; else one by one, each hashed while it
// is in the processor's cache.
const char* ChunkReader::read(const StoredTensor& tensor, const Piece& piece,
                              size_t first, size_t last, char* place, Audience audience) {
  open(piece.file);
  const std::optional<Road> road = road_of(chunk_range(piece, first, last), audience);
  const bool is_good =
      place != nullptr && Buffer::is_good_place(place) && road != Road::kDirect;
  char* out = is_good ? place : chunks_.data();
  const size_t step = road == Road::kDirect ? last - first : 1;
  for (size_t i = first; i < last; i += step) {
    char* to = out + static_cast<int64_t>(i - first) * kChunkBytes;
    naming(tensor.fqn, [&] { fetch(to, chunk_range(piece, i, i + step), road); });
    for (size_t at = i; at < i + step; ++at, to += kChunkBytes)
      check(tensor, piece, at, to);
  }
  return out;
}

std::optional<Road> ChunkReader::road_of(const Range& range, Audience audience) {
  if (audience == Audience::kMany || file_->is_cached(range.begin, range.bytes))
    return {};
  return roads_->next(range.bytes);
}

void ChunkReader::fetch(char* out, const Range& range, std::optional<Road> road) {
  const auto bytes = static_cast<size_t>(range.bytes);
  const auto start = std::chrono::steady_clock::now();
  if (road == Road::kDirect)
    file_->read_direct(out, bytes, range.begin);
  else
    file_->read(out, bytes, range.begin);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (road) roads_->tell(*road, range.bytes, took.count());
}

void ChunkReader::check(const StoredTensor& tensor, const Piece& piece, size_t index,
                        const char* bytes) const {
  const Range range = chunk_range(piece, index, index + 1);
  note_work(range.bytes);
  if (hash_of(bytes, static_cast<size_t>(range.bytes)) == piece.hashes.at(index)) return;
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

#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/share_out.h"
#include "checkpoint/verify.h"

namespace zero::checkpoint {

Reader::Reader(const std::string& folder)
    : folder_(folder), manifest_(load_manifest(folder_)), chunks_(folder_) {
  const auto damages = check_files(folder_, manifest_);
  if (!damages.empty()) throw damages.front();
}

const StoredTensor& Reader::find(Kind kind, const std::string& fqn) const {
  const StoredTensor* tensor = manifest_.find(kind, fqn);
  if (tensor != nullptr) return *tensor;
  throw CheckpointError(folder_.path(), fqn,
                        text_of("is not among the checkpoint's ", name_of(kind)));
}

void Reader::read(Kind kind, const std::string& fqn, int64_t begin, int64_t numel,
                  void* out) {
  const Wanted wanted{kind, fqn, begin, numel, out};
  std::vector<Part> parts;
  add_parts(wanted, parts);
  if (std::ssize(parts) <= kFewParts) ask_for(kind, fqn, begin, numel);
  read_parts(parts, Audience::kMany);
}

void Reader::read_alone(const std::vector<Wanted>& all) {
  std::vector<Part> parts;
  for (const Wanted& wanted : all) add_parts(wanted, parts);
  read_parts(parts, Audience::kOne);
}

void Reader::ask_for(Kind kind, const std::string& fqn, int64_t begin, int64_t numel) {
  const StoredTensor& tensor = find(kind, fqn);
  const int64_t element = size_of(tensor.dtype);
  for (const auto& piece : tensor.pieces) {
    const int64_t first = std::max(begin - piece.begin, int64_t{0}) * element;
    const int64_t last = std::min((begin + numel - piece.begin) * element, piece.bytes);
    if (first < last)
      chunks_.open(piece.file).ask_for(piece.offset + first, last - first);
  }
}

void Reader::add_parts(const Wanted& wanted, std::vector<Part>& parts) const {
  const StoredTensor& tensor = find(wanted.kind, wanted.fqn);
  require_part(folder_.path(), wanted.fqn, tensor.numel(), wanted.begin, wanted.numel,
               "wanted");
  for (const Piece& piece : tensor.pieces) add_parts(wanted, tensor, piece, parts);
}

// A chunk holds whole elements: their sizes divide kChunkBytes.
void Reader::add_parts(const Wanted& wanted, const StoredTensor& tensor,
                       const Piece& piece, std::vector<Part>& parts) {
  const int64_t element = size_of(tensor.dtype);
  const int64_t of_chunk = kChunkBytes / element;
  const int64_t last =
      std::min(wanted.begin + wanted.numel, piece.begin + piece.bytes / element);
  for (int64_t at = std::max(wanted.begin, piece.begin); at < last;) {
    const int64_t chunk = (at - piece.begin) / of_chunk;
    const int64_t next = std::min(last, piece.begin + (chunk + 1) * of_chunk);
    const auto first = static_cast<size_t>(chunk);
    const bool is_whole =
        (next - at) * element == chunk_range(piece, first, first + 1).bytes;
    Part* before = parts.empty() ? nullptr : &parts.back();
    if (before != nullptr && before->piece == &piece && before->wanted == &wanted &&
        before->is_whole && is_whole && first - before->first < kChunksAtOnce) {
      before->last = first + 1;
      before->end = next;
    } else {
      parts.push_back({&wanted, &tensor, &piece, first, first + 1, at, next, is_whole});
    }
    at = next;
  }
}

// Chunks that are wanted whole go straight to their place, if they can; of others we copy
// a part, and whoever wants the rest may be another process.
void Reader::read_part(const Part& part, ChunkReader& chunks, Audience audience) {
  const auto& [wanted, tensor, piece, first, last, begin, end, is_whole] = part;
  const int64_t element = size_of(tensor->dtype);
  char* out = static_cast<char*>(wanted->out);
  if (out != nullptr) out += (begin - wanted->begin) * element;
  const char* found = chunks.read(*tensor, *piece, first, last, is_whole ? out : nullptr,
                                  is_whole ? audience : Audience::kMany);
  if (found == out) return;
  found += (begin - piece->begin) * element - static_cast<int64_t>(first) * kChunkBytes;
  if (wanted->store)
    wanted->store(begin - wanted->begin, end - begin, found);
  else
    std::memcpy(out, found, static_cast<size_t>((end - begin) * element));
}

void Reader::read_parts(const std::vector<Part>& parts, Audience audience) {
  if (std::ssize(parts) <= kFewParts) {
    for (const Part& part : parts) read_part(part, chunks_, audience);
    return;
  }
  share_out(parts.size(), [&]() -> Worker {
    return [&, chunks = std::make_shared<ChunkReader>(folder_)](size_t job) {
      read_part(parts[job], *chunks, audience);
    };
  });
}

std::vector<char> Reader::read_all(Kind kind, const std::string& fqn) {
  const StoredTensor& tensor = find(kind, fqn);
  std::vector<char> bytes(static_cast<size_t>(tensor.num_bytes()));
  read(kind, fqn, 0, tensor.numel(), bytes.data());
  return bytes;
}

}  // namespace zero::checkpoint

#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/io.h"
#include "checkpoint/verify.h"

namespace zero::checkpoint {

Reader::Reader(const std::string& folder)
    : folder_(folder), manifest_(load_manifest(folder_)), chunk_(kChunkBytes) {
  const auto damages = check_files(folder_, manifest_);
  if (!damages.empty()) throw damages.front();
}

const StoredTensor& Reader::find(Kind kind, const std::string& fqn) const {
  const StoredTensor* tensor = manifest_.find(kind, fqn);
  if (tensor != nullptr) return *tensor;
  throw CheckpointError(folder_.path(), fqn,
                        text_of("is not among the checkpoint's ", name_of(kind)));
}

const File& Reader::open(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  const File& file = files_.emplace(name, folder_.open(name)).first->second;
  file.expect_to_be_asked();
  return file;
}

void Reader::read(Kind kind, const std::string& fqn, int64_t begin, int64_t numel,
                  void* out) {
  const StoredTensor& tensor = find(kind, fqn);
  const int64_t full = tensor.numel();
  if (begin < 0 || numel < 0 || begin > full || numel > full - begin) {
    throw CheckpointError(
        folder_.path(), fqn,
        text_of("has ", full, " elements, ", numel, " were wanted from ", begin));
  }
  const int64_t element = size_of(tensor.dtype);
  const Window window{tensor, begin * element, (begin + numel) * element,
                      static_cast<char*>(out)};
  for (const auto& piece : tensor.pieces) read_piece(window, piece);
}

void Reader::ask_for(Kind kind, const std::string& fqn, int64_t begin, int64_t numel) {
  const StoredTensor& tensor = find(kind, fqn);
  const int64_t element = size_of(tensor.dtype);
  for (const auto& piece : tensor.pieces) {
    const int64_t first = std::max(begin - piece.begin, int64_t{0}) * element;
    const int64_t last = std::min((begin + numel - piece.begin) * element, piece.bytes);
    if (first < last) open(piece.file).ask_for(piece.offset + first, last - first);
  }
}

// A chunk that is wanted whole goes straight to its place, where that is a good one; of
// others we copy a part.
void Reader::read_piece(const Window& window, const Piece& piece) {
  const int64_t piece_begin = piece.begin * size_of(window.tensor.dtype);
  const int64_t first = std::max(window.begin, piece_begin);
  const int64_t last = std::min(window.end, piece_begin + piece.bytes);
  if (first >= last) return;
  const File& from = open(piece.file);
  const int64_t shift = piece.offset - piece_begin;  // from the tensor to the file
  ReadAhead ahead;  // behind values of one kind lie those of another
  for (int64_t i = (first - piece_begin) / kChunkBytes;
       piece_begin + i * kChunkBytes < last; ++i) {
    const auto index = static_cast<size_t>(i);
    const int64_t chunk_begin = piece_begin + i * kChunkBytes;
    const int64_t chunk_end = chunk_begin + chunk_range(piece, index).bytes;
    const Range soon = ahead.before(chunk_begin + shift, last + shift);
    from.ask_for(soon.begin, soon.bytes);
    const bool is_whole = first <= chunk_begin && chunk_end <= last;
    char* out = is_whole ? window.out + (chunk_begin - window.begin) : nullptr;
    if (is_whole && Buffer::is_good_place(out)) {
      read_chunk(from, window.tensor, piece, index, out);
    } else {
      read_chunk(from, window.tensor, piece, index, chunk_.data());
      const int64_t begin = std::max(first, chunk_begin);
      const int64_t end = std::min(last, chunk_end);
      std::memcpy(window.out + (begin - window.begin),
                  chunk_.data() + (begin - chunk_begin),
                  static_cast<size_t>(end - begin));
    }
  }
}

std::vector<char> Reader::read_all(Kind kind, const std::string& fqn) {
  const StoredTensor& tensor = find(kind, fqn);
  std::vector<char> bytes(static_cast<size_t>(tensor.num_bytes()));
  read(kind, fqn, 0, tensor.numel(), bytes.data());
  return bytes;
}

Range chunk_range(const Piece& piece, size_t index) {
  const int64_t begin = static_cast<int64_t>(index) * kChunkBytes;
  return {piece.offset + begin, std::min(kChunkBytes, piece.bytes - begin)};
}

void read_chunk(const File& file, const StoredTensor& tensor, const Piece& piece,
                size_t index, void* out) {
  const Range range = chunk_range(piece, index);
  const auto bytes = static_cast<size_t>(range.bytes);
  naming(tensor.fqn, [&] { file.read(out, bytes, range.begin); });
  note_work(range.bytes);
  if (hash_of(out, bytes) == piece.hashes.at(index)) return;
  const std::string what = tensor.kind == Kind::kParam
                               ? "the values are"
                               : text_of(name_of(tensor.kind), " is");
  throw CheckpointError(
      file.path(), tensor.fqn,
      text_of(what, " damaged: bytes ", range.begin, " to ",
              range.begin + range.bytes - 1, " do not have the hash that was recorded"),
      "use another checkpoint");
}

}  // namespace zero::checkpoint

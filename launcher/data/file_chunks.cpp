#include "launcher/data/file_chunks.h"

#include "base/hash.h"

namespace zero::data {

uint64_t hash_file(const MappedFile& file, const std::string& name, uint64_t seed,
                   const OnRead& on_read) {
  Hasher hasher(seed);
  // Both lengths go first: no two files can then give one stream of bytes.
  const int64_t lengths[] = {std::ssize(name), file.size_bytes()};
  hasher.add(lengths, sizeof(lengths));
  hasher.add(name.data(), name.size());
  for_each_chunk(file, 0, on_read,
                 [&](const unsigned char* bytes, int64_t, int64_t num_bytes) {
                   hasher.add(bytes, static_cast<size_t>(num_bytes));
                 });
  return hasher.digest();
}

}  // namespace zero::data

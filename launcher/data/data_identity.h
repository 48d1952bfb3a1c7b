#pragma once
#include <cstdint>
#include <string>

namespace zero {
class Ranks;
namespace data {
class TokenSource;
}
}  // namespace zero

namespace zero::launcher {

// Which data a run is trained on, wherever it lies.
struct DataIdentity {
  std::string hash;  // of names, sizes and contents; 16 hexadecimal digits
  int64_t num_tokens = 0;

  bool operator==(const DataIdentity&) const = default;
};

// Rank 0's identity, which every rank must have too; collective.
//
// The first rank of each host reads every byte, the others compare sizes alone. Throws
// Error(kData) on a rank whose data is another.
DataIdentity agree_on_data(const data::TokenSource& source, bool reads_all, Ranks& ranks);

}  // namespace zero::launcher

#pragma once
#include <memory>
#include <string>

namespace zero {

class Communicator;

// The same communicator, with one line per collective written to a file when the call is
// made: "seq op tag bytes", seq counted from 0 per communicator, bytes of the shard or of
// the data. Parts and duplicates write to the same file. Throws Error(kEnvironment) if
// the file cannot be written.
std::unique_ptr<Communicator> make_traced_communicator(
    std::unique_ptr<Communicator> traced, const std::string& path);

}  // namespace zero

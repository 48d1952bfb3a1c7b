#pragma once
#include <functional>
#include <memory>
#include <string>

#include "launcher/bench/rounds.h"

namespace zero {
class Ranks;
namespace checkpoint {
class OwnFolder;
}
}  // namespace zero

namespace zero::launcher {

// The work of all ranks, which begin together; of its seconds those of the slowest rank
// count. Collective.
Contestant slowest_of(Ranks& ranks, Contestant work);

// A folder for what ranks write, which goes away with this.
class BenchFolder {
 public:
  // In `above`, or the current folder if that is empty. Collective. Throws
  // Error(kCheckpoint).
  BenchFolder(const std::string& above, Ranks& ranks);
  ~BenchFolder();

  const std::string& path() const { return path_; }

 private:
  std::unique_ptr<checkpoint::OwnFolder> own_;  // of rank 0
  std::string path_;
};

}  // namespace zero::launcher

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::checkpoint {

class Folder;

struct StepFolder {
  int64_t step = 0;
  std::string path;
  bool is_link = false;  // to where people have moved it: read, and never removed
};

// List the folders that call themselves checkpoints in a run's folder, and links to such,
// oldest first; files of such names are somebody else's. A run that does not exist yet
// has none.
std::vector<StepFolder> list_steps(const std::string& run);
std::vector<StepFolder> list_steps(const Folder& run);

// Say why a step's folder is no complete checkpoint; empty: it is one. Looks at the
// manifest with its hash and at every file's size; verify() looks at every byte.
std::string flaw_of(const StepFolder& folder);
std::string flaw_of(const Folder& run, int64_t step);

// Of what has the name of a checkpoint and is none, such as a file, a pipe, or a link
// that leads nowhere: the steps, in order.
std::vector<int64_t> misnamed_steps(const Folder& run);

// Find the newest complete checkpoint. For each newer one that is damaged, and for what
// only has such a name, why it was passed over is appended to `passed_over` (if given),
// naming the file. One that a run removes meanwhile, as it has a newer one, is no damage.
//
// The file `latest` is for people and is not read.
std::optional<StepFolder> newest_complete(
    const std::string& run, std::vector<std::string>* passed_over = nullptr);

}  // namespace zero::checkpoint

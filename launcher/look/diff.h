#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/look/folders.h"
#include "launcher/look/values.h"
#include "launcher/model.h"

// Two folders of tensors, one beside the other.
namespace zero::launcher {

enum class Verdict { kEqual, kDiffers, kOtherType, kOtherShape, kOnlyInA, kOnlyInB };

// "equal", "differs", "other type", ...
const char* name_of(Verdict verdict);

// One tensor of both, by its name or an alias of it.
struct TensorDiff {
  checkpoint::Kind kind = checkpoint::Kind::kParam;
  std::string fqn;
  Verdict verdict = Verdict::kEqual;  // equal: type, shape and bits
  std::string a, b;                   // "fp32 (4, 16)"; empty: not there
  std::optional<Distance> distance;   // where both have that shape
};

struct FolderDiff {
  std::string path_a, path_b;            // of steps, where runs were given
  std::vector<std::string> passed_over;  // newer steps of these runs, and why
  std::vector<TensorDiff> tensors;

  int64_t num(Verdict verdict) const;
  bool are_equal() const { return num(Verdict::kEqual) == std::ssize(tensors); }
};

// Compare what lies in two folders, in memory of a few MiB. `models` know which prefix
// older folders of Hugging Face leave out of names. Throws as find_folder() and
// require_matches() do, and CheckpointError for what cannot be read.
FolderDiff diff_folders(const std::string& dir_a, const std::string& dir_b,
                        const Selection& selection, const ModelFamilies& models);

std::string to_page(const FolderDiff& diff);
std::string to_line(const FolderDiff& diff);  // one JSON object

}  // namespace zero::launcher

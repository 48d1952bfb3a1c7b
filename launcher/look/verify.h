#pragma once
#include <string>
#include <vector>

#include "checkpoint/verify.h"
#include "launcher/look/frozen.h"

// Whether the bytes of checkpoints are those that were written.
namespace zero::launcher {

// The steps of a run in order, with what only has such a name, such as a link whose
// checkpoint is gone; or `dir` itself where it is one. Throws Error(kUsage) where it is
// neither.
std::vector<std::string> folders_to_verify(const std::string& dir);

// checkpoint::verify(), and people are told how far it is. What cannot be opened is a
// damage, too.
checkpoint::VerifyReport verify_folder(const std::string& folder);

// "sound: 1.2 GiB in 5 files", or each damage in a line.
std::string to_text(const checkpoint::VerifyReport& report);

// One JSON object of all of them.
std::string to_line(const std::vector<std::string>& folders,
                    const std::vector<checkpoint::VerifyReport>& reports,
                    const FrozenTensors& frozen);

}  // namespace zero::launcher

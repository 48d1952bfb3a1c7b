#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/look/folders.h"
#include "launcher/look/values.h"
#include "launcher/model.h"

// What a folder of tensors holds.
namespace zero::launcher {

struct Inspected {
  checkpoint::StoredTensor tensor;  // without pieces
  std::optional<Summary> summary;
};

struct Inspection {
  std::string path;
  bool is_checkpoint = false;
  std::vector<std::string> passed_over;  // newer steps of the run, and why
  checkpoint::Manifest about;            // without tensors
  std::string written;                   // "2026-11-23 08:49:52 UTC", by the file's time
  std::string model;                     // "gpt2: 2 layers, ..."; empty: not known
  std::vector<std::string> notes;        // why not
  int64_t num_files = 0, num_bytes = 0;  // of the whole folder
  int64_t num_parameters = 0;            // values of them
  std::map<checkpoint::Kind, int64_t> kinds;  // how many tensors
  std::vector<Inspected> tensors;
};

// Throws as find_folder() and require_matches() do, and CheckpointError for what cannot
// be read; where all values are read also for those whose hash is not the recorded one.
Inspection inspect_folder(const std::string& dir, const Selection& selection,
                          bool reads_values, const ModelFamilies& models);

std::string to_page(const Inspection& inspection);
std::string to_line(const Inspection& inspection);  // one JSON object

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/settings.h"

namespace zero {
class Ranks;
namespace data {
class Source;
}
}  // namespace zero

namespace zero::launcher {

// Which data a run is trained on, wherever it lies.
struct DataIdentity {
  std::string hash;        // of names, sizes and contents; 16 hexadecimal digits
  int64_t num_tokens = 0;  // or images

  bool operator==(const DataIdentity&) const = default;
};

// Rank 0's identity, which every rank must have too; collective.
//
// The first rank of each host reads every byte, the others compare sizes alone. Throws
// Error(kData) on a rank whose data is another.
DataIdentity agree_on_data(const data::Source& source, bool reads_all, Ranks& ranks);

// Frozen parameters that a checkpoint is without.
struct FrozenSource {
  std::string path;  // of a model's folder or a checkpoint; "": it has all
  // By type, "fp32", "bf16", "fp16", "int8", and FQN: Engine::checksums() as 16
  // hexadecimal digits.
  std::map<std::string, std::map<std::string, std::string>> checksums = {};

  std::vector<std::string> fqns() const;
  bool has(const std::string& fqn) const;
};

// What a checkpoint tells about the run that wrote it: its `config`.
struct SavedRun {
  Settings settings;
  DataIdentity data;
  int64_t vocab = 0;     // as the model was built
  bool is_text = false;  // tokens are bytes
  int64_t threads = 0;   // of the model, on rank 0; 0: older ones do not tell
  // The model's complete config; empty: older ones do not tell, settings do.
  nlohmann::json model = nlohmann::json::object();
  std::vector<std::string> classes;  // names of targets; empty: they have none
  nlohmann::json source = nullptr;   // config.json of --init-from, as it stood there
  FrozenSource frozen = {};          // with --save-frozen=false
};

// {"settings": {...}, "data": {"hash": .., "tokens": ..}, "vocab": 257, "is_text": true,
//  "threads": 2, "model": {"n_layer": 6, ...}, "source": null}; of images "classes", too,
// and "frozen": {"path": .., "checksums": {"fp32": {"wte.weight": "..", ...}, ...}}
std::string to_text(const SavedRun& run);

// A path as a checkpoint keeps it: a later start may be in another folder. Throws
// Error(kUsage) where that is not UTF-8.
std::string lasting_path(const std::string& path);
// The family of its model; nullptr: not among these. require_family_of() throws
// Error(kUsage) then; `where`: the checkpoint.
const ModelFamily* find_family_of(const ModelFamilies& models, const SavedRun& run);
const ModelFamily& require_family_of(const ModelFamilies& models, const SavedRun& run,
                                     const std::string& where);
// Its model as these settings ask for it: shape_of(), or new_shape() where it does not
// tell its config.
ModelShape shape_of_run(const ModelFamily& family, const SavedRun& run,
                        const Settings& settings);

// Throws Error(kCheckpoint) that names `where`.
SavedRun parse_saved_run(const std::string& text, const std::string& where);

// The checkpoint's settings without what belongs to a machine or to tests: of another use
// of its model, and of a run that goes on by `train --out DIR` alone, which lacks what
// belongs to one start, too.
Settings settings_for_use(const Settings& saved);
Settings settings_to_go_on(const Settings& saved);

struct BestStep {
  int64_t step = -1;
  double loss = 0;
  bool operator==(const BestStep&) const = default;
};

// Where a run stands beside the engine's own state: its `position`.
struct Progress {
  int64_t num_batches = 0;       // taken from the data, those of skipped steps included
  int64_t num_samples = 0;       // the next batch begins with this sample
  int64_t num_bad = 0;           // steps that were skipped
  int64_t num_bad_in_a_row = 0;  // just now; in fp16 at the smallest loss scale
  int64_t last_evaluation = -1;  // step
  int64_t last_sample = -1;      // step
  int64_t best_step = -1;        // whose evaluation had the lowest loss; -1: none is kept
  double best_loss = 0;          // of that step

  BestStep best() const { return {best_step, best_loss}; }
  void set_best(const BestStep& best) {
    best_step = best.step;
    best_loss = best.loss;
  }
  bool operator==(const Progress&) const = default;
};

std::string to_text(const Progress& progress);
Progress parse_progress(const std::string& text, const std::string& where);

// "steps was 240, is 280, under schedule cosine: the rate of step 241 was 0.0e+00, is
// 1.2e-04": a run goes on after `step` with a later end. Empty: the rate is the same.
std::string changed_rate(const Settings& before, const Settings& now, int64_t step);

// Whether losses of both runs' evaluations can be compared.
bool evaluates_as(const Settings& before, const Settings& now);

// What makes `now` another run than `before`, as text: "lr was 0.001, is 0.01". Settings
// that `now.settings.overrides` names are allowed; data that only moved is the same.
std::vector<ChangedSetting> differences(const SavedRun& before, const SavedRun& now);

// Throws one Error(kUsage) that lists all differences and how to go on. `other_tensors`
// tells in lines what the checkpoint's tensors differ in from the model's: then none of
// its settings may be overridden.
void check_same_run(const SavedRun& before, const SavedRun& now, const std::string& where,
                    const std::vector<std::string>& other_tensors = {});

}  // namespace zero::launcher

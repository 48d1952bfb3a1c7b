#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zero/save_load.h"

namespace zero {

// How the names of an HDF5 file's datasets differ from a model's FQNs. A dataset's name
// is its path with dots for '/', without the group "params" or "buffers" of our own
// files.
struct H5WeightNames {
  // Globs and what becomes of names that match: each * there is what the * in the same
  // place of the glob stands for. The first that matches counts; then come the others.
  std::vector<std::pair<std::string, std::string>> renames;
  SafetensorsNames others;
};

// The weights of a plain HDF5 file that others wrote, such as one of h5py, for a model.
class H5Weights {
 public:
  // Holds the file against the model, which may be deferred, before any value is read.
  // Throws CheckpointError for what a plain file does not have (checkpoint/h5_source.h);
  // Error(kUsage) for renames that no name is left for; and one CheckpointError that
  // lists all tensors that are missing, extra, or of another shape or kind of type. A
  // tied parameter may stand there under any of its names; under several, they must be
  // equal. A file without any of the model's buffers may lack all of them.
  //
  // Of the options `ignored` counts, and what makes first values of buffers. The model
  // must outlive this.
  H5Weights(torch::nn::Module& model, const Options& options, const std::string& file,
            const H5WeightNames& names = {});
  ~H5Weights();

  // Names of parameters that are rounded, from fp64 to fp32.
  const std::vector<std::string>& rounded() const { return rounded_; }
  // Names and paths of what is not read: nobody needs it, or only a run that goes on.
  const std::vector<std::string>& unread() const { return unread_; }
  int64_t num_tensors() const;

  // Write run/step_000000000000/ as save_seed() does, with these values; returns its
  // path. Values that are not finite in fp32 are a CheckpointError.
  std::string save(const std::string& run, const SavedState& state, bool replace = false);

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
  std::vector<std::string> rounded_, unread_;
};

}  // namespace zero

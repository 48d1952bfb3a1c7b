#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "launcher/model.h"

namespace zero::launcher {

// What becomes of adapters that the checkpoint has.
enum class Adapters { kNone, kMerge, kAlone };

struct ExportOptions {
  // A step's folder; or several, each with other parts of one model (--parts).
  std::vector<std::string> from;
  std::string to;              // a new folder
  std::optional<DType> dtype;  // unset: that of the weights that the run started from,
                               // else fp32
  int64_t max_file_bytes = int64_t{5} << 30;
  bool replace = false;  // a model that is there
  // kMerge: added to the weights. kAlone: they are all that is exported, for peft.
  Adapters adapters = Adapters::kNone;
};

struct Exported {
  int64_t num_tensors = 0, num_bytes = 0;
  std::vector<std::string> files;       // of weights
  std::vector<std::string> companions;  // copied: tokenizer and the like
  bool is_of_language = false;          // and wants a tokenizer
  DType dtype = DType::kFp32;
};

// Write a checkpoint's model, or the whole of several that have its parts, as a folder
// that from_pretrained() of transformers loads, in version 4 and 5: safetensors,
// config.json in both styles, and the tokenizer's files where the run has them. One
// process, in memory of a piece of a tensor.
//
// Of a checkpoint with adapters the options must say what becomes of them: merged, each
// weight is the sum in fp32, rounded once.
//
// The folder appears whole or not at all; with `replace` only files of its names are
// replaced. Throws Error(kUsage) for a folder that is there, a model that Hugging Face
// does not know, adapters that are there unasked or not there, or parts that are not
// those of one model; CheckpointError.
Exported export_model(const ExportOptions& options, const ModelFamilies& models);

}  // namespace zero::launcher

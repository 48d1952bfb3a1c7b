#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/tensor.h"
#include "zero/save_load.h"

// Which tensors of a file of others are whose of a model.
namespace zero {

// What such a file has, by name.
using OfferedTensors = std::map<std::string, checkpoint::TensorType>;

// What a model has, under any of these names. Of parameters and floating-point buffers
// every floating type will do, of others every integer.
struct WantedTensor {
  std::vector<std::string> fqns;
  std::vector<int64_t> shape;
  DType dtype = DType::kFp32;
};

struct Sources {
  // More than one: tied, under each name. None: it may lack.
  std::vector<std::vector<std::string>> of_param;
  std::vector<std::string> of_buffer;  // none, or one for each
  std::vector<std::string> dead;       // that nobody needs
};

// Throws one CheckpointError about `file`, with this cure, that lists all tensors that
// are missing, extra, or of another shape or kind of type; or `most` of those that the
// model has, and of the others. A file without any buffer may lack all of them.
Sources find_sources(const std::vector<WantedTensor>& params,
                     const std::vector<WantedTensor>& buffers,
                     const OfferedTensors& tensors, const SafetensorsNames& names,
                     const std::string& file, const std::string& cure, size_t most = 20);

// Whether a tensor counts, by its name: not those that belong elsewhere.
std::function<bool(const std::string&)> counts_by(const SafetensorsNames& names);

// Throw CheckpointError where tensors under several names differ, of one that is tied in
// the model. Compares elements [begin, begin + numel), few at once.
void require_equal(const std::string& file, const std::vector<std::string>& names,
                   int64_t begin, int64_t numel, const std::string& cure,
                   const std::function<void(const std::string& name, int64_t begin,
                                            std::span<float> out)>& read);

}  // namespace zero

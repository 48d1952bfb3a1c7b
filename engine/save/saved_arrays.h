#pragma once
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/slices.h"
#include "checkpoint/tensor.h"
#include "zero/engine.h"

// An engine's state as a checkpoint has it, in either direction.
namespace zero {

// Among the manifest's numbers of the engine; absent: 0. With "/FQN" behind it: of a
// parameter, where it differs.
inline const std::string kOptimizerStart = "optimizer_start";
// Of fp16 alone; absent: the scale of a new run.
inline const std::string kLossScale = "loss_scale",
                         kCleanSteps = "loss_scale_clean_steps";

// One of this rank's arrays.
struct NamedArray {
  checkpoint::Kind kind;
  StoredValues values;
};

// A parameter's masters, and what the optimizer keeps if it is asked for.
std::vector<NamedArray> arrays_of(const ShardView& view, bool with_state);

// The same as slices of their tensors; of one parameter, and of all.
std::vector<checkpoint::Slice> slices_of(const ShardView& view, bool with_state);
std::vector<checkpoint::Slice> shard_slices(Engine& engine, bool with_state);

// Of what is whole in a module; nothing if checkpoints know no type for it.
std::optional<BufferView> buffer_view(const std::string& fqn, const at::Tensor& buffer);
// A buffer is stored in its type; a parameter that is whole as any other one, in fp32.
checkpoint::StoredTensor tensor_of(const BufferView& view);

}  // namespace zero

#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "engine/unit/model_scan.h"
#include "zero/options.h"

namespace zero {

// The init functions of a model: Options::param_init, called for each module that owns
// parameters or buffers, or Options::init_types. Modules come top-down, each once, when
// the first of its parameters is asked for; memory is for those of one module.
class InitFunctions : NoCopy {
 public:
  // Proves that init_types exclude each other and cover the model; throws Error(kUsage)
  // that lists what two of them cover, or none.
  // `are_called`: else there are none, whatever the options hold.
  InitFunctions(const ScannedModel& model, const Options& options, bool are_called);
  // Where an exception ends it, deferred buffers that functions wrote are deferred again.
  ~InitFunctions();

  // What a function made of a deferred parameter, of the parameter's type; nothing where
  // it was left to the next in line. Valid until another module's turn.
  //
  // Throws Error(kUsage) where a function uses what is not its own, or leaves something
  // unwritten without saying so.
  std::optional<at::Tensor> values_of(size_t param);
  // The FQN of the module whose function wrote it last; null: none did.
  const std::string* writer_of_buffer(size_t buffer) const;
  const std::string* module_of(size_t param) const;

  // The turn of modules that own no parameters that anybody asked for.
  void run_rest();

 private:
  struct Task;
  void add_each_module();
  void add_types();
  void require_coverage() const;
  void own(Task& task, bool with_descendants);
  void run(Task& task);
  std::vector<at::Tensor> tensors_of_others(const Task& task) const;
  void require_unchanged(const Task& task, const std::vector<at::Tensor>& others,
                         const std::vector<uint32_t>& others_before) const;
  void keep_values(const Task& task, InitDone done);

  const ScannedModel& model_;
  const Options& options_;
  std::vector<Task> tasks_;                      // top-down
  std::vector<std::optional<size_t>> of_param_;  // the task of each
  std::vector<std::optional<size_t>> of_buffer_;
  std::map<const at::TensorImpl*, size_t> task_of_buffer_;
  std::vector<std::optional<size_t>> buffer_writer_;
  std::optional<size_t> ran_last_;
  std::vector<std::pair<size_t, at::Tensor>> results_;              // of that task
  std::vector<std::pair<at::Tensor, c10::Storage>> given_buffers_;  // and what they had
  const int num_exceptions_;
};

}  // namespace zero

#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/run/console.h"
#include "launcher/run/metrics.h"
#include "launcher/settings/settings.h"
#include "offload/fastest_threads.h"

// The lines of a run: its banner, its steps, numbers as people read them.
namespace zero::launcher {

// What a run tells before its first step.
struct BannerFacts {
  std::string family;              // of the model
  std::vector<std::string> hosts;  // of each rank
  std::vector<std::string> cores;  // of each rank: "0-3 (was pinned to 0)"
  int threads = 1;                 // of each rank's model
  ThreadChoice adam_threads;       // of rank 0's optimizer
  std::string gpu;                 // empty: the CPU computes
  ModelShape shape;
  int64_t num_parameters = 0, num_trained = 0;
  std::vector<std::string> frozen_for_now;  // Thawing::waiting()
  int num_units = 0;
  std::string data;  // "text, 143 files, 1,234,567 tokens"
  int64_t samples_per_epoch = 0;
  int64_t num_held_out = 0;  // of the data, for evaluations
  BatchPlan batch;
  std::vector<MemoryEntry> memory;  // of rank 0
  int64_t activations = -1;         // estimated; -1: nobody knows
  int64_t checkpoint_bytes = 0;     // of all ranks
  double save_seconds = -1;         // of the save before; -1: there was none
  std::string stop_command;         // "kill -USR1 1234, or touch runs/a/STOP"
};

std::string banner(const Settings& settings, const BannerFacts& facts);

// "2 (1: 6.1 GB/s, 2: 11.7 GB/s)"; the number alone where nothing was measured.
std::string describe_threads(const ThreadChoice& choice);

// "step    12/1000 | loss 3.2826 | norm 1.04 | lr 3.0e-04 | 709 ms (gpu 71% h2d 22%
// adam 7%) | 38.3k tok/s | peak 1.2 GiB | eta 28m"; of a wider one than `width` what
// matters least is left out, never step, loss and what is wrong. `unit`: of targets.
std::string step_line(const StepRecord& record, int64_t num_steps, double eta_seconds,
                      size_t width = kNoEnd, const std::string& unit = "tok");

// "loss 3.1230 | ppl 22.71 | accuracy 38.10 %": of an evaluation, the loss with so many
// digits behind the point; images have no perplexity.
std::string evaluation_text(double loss, const std::optional<double>& accuracy, Task task,
                            int digits);

// "12 layers, dim 768, 12 heads, vocabulary 50257", or "16 blocks, 1000 classes, images
// of 224 x 224"
std::string shape_text(const ModelShape& shape);

// A line of a page: "  ranks    2 with ...". Its text begins in kTextColumn.
constexpr size_t kTextColumn = 11;
std::string labelled(const std::string& label, const std::string& text);

// In one line, whatever bytes its texts hold.
std::string json_text(const nlohmann::ordered_json& value);

// [{"owner": "masters", "tier": "host", "bytes": 1024}, ...]
nlohmann::ordered_json to_json(const std::vector<MemoryEntry>& memory);

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

std::string short_count(double count);       // 38.3k
std::string short_duration(double seconds);  // 28m
std::string short_bytes(int64_t bytes);      // 1.5 GiB

// Guess how long the rest takes, from the seconds of the last evaluation and of the last
// steps: the newest count most.
class Eta {
 public:
  void add_step(double seconds) {
    constexpr double kWeight = 0.1;
    mean_ = has_any_ ? mean_ + kWeight * (seconds - mean_) : seconds;
    has_any_ = true;
  }
  void note_evaluation(double seconds) { evaluation_ = seconds; }
  // After `step`, before its evaluation. There is one every so many steps, 0: nobody
  // knows when, and one behind the last.
  double remaining_seconds(int64_t step, int64_t last_step, int64_t eval_every) const {
    const auto begun = [&](int64_t steps) {
      return (steps + eval_every - 1) / eval_every;
    };
    const int64_t num_evaluations =
        eval_every > 0 ? begun(last_step) - begun(step) + 1 : 0;
    return mean_ * static_cast<double>(last_step - step) +
           evaluation_ * static_cast<double>(num_evaluations);
  }

 private:
  double mean_ = 0, evaluation_ = 0;
  bool has_any_ = false;
};

// Why a path is no folder: "--from names a file, not a folder".
std::string no_folder(const std::string& flag, const std::string& path);

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/batches.h"
#include "launcher/binding.h"
#include "launcher/metrics.h"
#include "launcher/model.h"
#include "launcher/model_shape.h"
#include "launcher/settings.h"
#include "launcher/step_line.h"

namespace zero {
class Engine;
struct StepReport;
namespace data {
class Sampler;
class TokenSource;
}  // namespace data
}  // namespace zero

namespace zero::launcher {

class Runner;
class World;

// One run of `train`, from the data to the last line.
//
// run() throws what goes wrong and leaves this object whole: with an engine in the middle
// of a step its destructor may wait for other ranks, so end those first. All three
// arguments must outlive it.
class Training {
 public:
  Training(const Settings& settings, const ModelFamilies& models, World& world);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void run();

 private:
  // In this order.
  void take_threads();
  void open_data();
  void open_output();
  void build_model();
  void build_engine();
  void announce();
  void train_steps();
  void finish();

  StepReport train_batch(int64_t batch);
  void log_step(const StepReport& report, double seconds);
  void check_progress(const StepReport& report);
  void evaluate_model();
  void print_sample();
  bool is_first_rank() const;

  const Settings& settings_;
  const ModelFamilies& models_;
  World& world_;

  // Constant after the step that makes them.
  Cores cores_;
  int threads_ = 1;
  BatchPlan batch_;
  ModelShape shape_;
  std::unique_ptr<data::TokenSource> source_,
      eval_source_;  // eval: null without --eval-data
  std::unique_ptr<data::Sampler> sampler_, eval_sampler_;
  std::vector<int64_t> prompt_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Metrics> metrics_;  // rank 0 only

  // Where the run stands, beside the engine's own state.
  int64_t num_batches_ = 0;  // taken from the data, those of skipped steps included
  int64_t num_bad_in_a_row_ = 0;
  int64_t last_evaluation_ = -1;  // step
  std::vector<double> losses_;
  Eta eta_;
};

}  // namespace zero::launcher

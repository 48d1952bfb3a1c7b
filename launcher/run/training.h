#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/batches.h"
#include "launcher/inference/generate.h"
#include "launcher/model.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/process_setup.h"
#include "launcher/run/lines.h"
#include "launcher/run/metrics.h"
#include "launcher/run/model_weights.h"
#include "launcher/run/progress.h"
#include "launcher/run/saved_run.h"
#include "launcher/run/thawing.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/settings.h"
#include "zero/lr_schedule.h"

namespace zero {
class Engine;
class Ranks;
class Save;
enum class ExitCode : int;
namespace data {
class Samples;
class Source;
}  // namespace data
}  // namespace zero

namespace zero::launcher {

struct ModelFolder;
class RunFolder;
class Runner;
class Tokenizer;
class World;

// Why a run ends before its last step.
enum class Stop : int64_t { kNo, kStopFile, kTimeLimit, kSignal };

// One run of `train`, from the data to the last line: started or resumed, saved on the
// way and at its end.
//
// run() throws what goes wrong, gives the run's lock back unless a save still goes on,
// and leaves this object whole: with an engine in the middle of a step its destructor may
// wait for other ranks, so end those first. All three arguments must outlive it.
class Training {
 public:
  Training(const Settings& settings, const ModelFamilies& models, World& world);
  ~Training();

  // kDone, or kRequeue when the run was asked to stop and has saved.
  ExitCode run();
  // Its first part alone: what it would be trained on.
  ExitCode look_at_data();

 private:
  // In this order.
  void open_data();
  void build_engine();
  void open_folder();
  void load_progress();
  void announce();
  Stop begin();
  ExitCode train_steps();
  ExitCode finish();

  // In training_data.cpp.
  std::unique_ptr<data::Source> open_data_at(const std::vector<std::string>& paths);
  void prepare_sample();
  bool has_bytes() const;  // are the tokens of the data
  void show_sample();
  void find_own_tokenizer();
  std::unique_ptr<Tokenizer> open_tokenizer() const;
  void keep_source(const std::string& folder) const;
  void keep_tokenizer() const;
  void refuse_other_tokens(const data::Source& source) const;
  void make_samples();
  void require_evaluation(int64_t num_samples) const;
  void count_steps();
  void take_over_threads(int64_t saved);
  void require_free_names() const;
  void announce_start();
  void record_run();
  bool is_finished() const;

  void tell_use();
  void thaw();
  StepReport train_batch(int64_t batch);
  void log_step(const StepRecord& record);
  void tell_movement();
  void check_progress(const StepReport& report);

  // In training_saves.cpp. A save that goes on beside the steps.
  struct PendingSave {
    std::shared_ptr<Save> save = nullptr;
    int64_t step = 0, batches = 0;
    BestStep best = {};                      // the newest that there was then
    double held_before = 0;                  // StreamSeconds::saves
    double waited = 0;                       // for its end, while no step ran
    std::vector<std::string> warnings = {};  // of rank 0, behind its end
  };
  int64_t checkpoint_bytes() const;
  bool is_save_due() const;
  void save();
  void begin_save();
  void follow_save(PendingSave& done) const;
  void finish_save(bool goes_on);
  void finish_save();
  void finish_last_save();
  double note_save(const PendingSave& done);
  void note_failed_save(const PendingSave& failed);
  void record_save(const PendingSave& done, const std::string& path, double lost);
  void record_failed_save(const std::exception& error, bool goes_on);
  bool is_linked_here() const;
  bool is_best_here() const;
  void keep_linked();
  void name_best(int64_t step) const;
  void name_best(int64_t step, std::vector<std::string>& warnings) const;
  void note_cost_of_signals();

  Stop agree_on_next();
  Stop wish_to_stop() const;
  ExitCode leave(Stop reason);
  bool is_due(int64_t every, int64_t last) const;
  // How many steps have as many samples as an evaluation.
  double steps_of_evaluation() const;
  // Of rank 0, before all know.
  bool wants_evaluation() const;
  void note_evaluation(double loss, double seconds);
  void record_evaluation(const EvalRecord& record, int64_t num_samples);
  // An evaluation and a sample, where they are due. Anything but kNo: asked for
  // meanwhile, and what was done was left.
  Stop look_at_model();
  Stop evaluate_model();
  Stop draw_sample();
  NextText speech();
  void tell_end() const;
  bool is_first_rank() const;
  void choose_model();
  void choose_frozen_type(const std::string& stored);
  void read_weights();
  void keep_source_of(const std::string& checkpoint) const;
  bool goes_on_here() const;
  WeightsPlace weights_at(const std::string& path, bool is_checkpoint) const;
  void note_base(const std::string& path, const std::vector<std::string>& lacking);
  void read_frozen_before(const FrozenSource& source, bool moved);
  void read_adapters();
  void report_first_values();

  Settings settings_;  // constant once the engine is built
  const ModelFamilies& models_;
  World& world_;

  // Constant after the step that makes them, but for the save.
  ProcessSetup process_;
  BatchPlan batch_;
  LrSchedule schedule_;  // of --epochs
  const ModelFamily* family_ = nullptr;
  Checksums base_;  // of frozen weights at base_path_, with --save-frozen=false
  std::string base_path_;
  bool is_rounded_ = false;  // are frozen weights, which were stored otherwise
  std::unique_ptr<ModelFolder> folder_of_weights_;  // null without --init-from, or
                                                    // resumed
  ModelShape shape_;
  RunPlan plan_;
  ThreadChoice adam_threads_;
  std::unique_ptr<data::Source> source_,
      eval_source_;  // eval: null without --eval-data
  std::unique_ptr<data::Samples> samples_,
      eval_samples_;                    // eval: null where there are none for it
  std::string tokenizer_;               // a tokenizer.json; empty: there is none
  std::unique_ptr<Tokenizer> speaker_;  // of samples; rank 0, null: they are numbers
  std::vector<int64_t> sample_ends_;    // tokens that end one
  std::vector<int64_t> sample_prompt_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<RunFolder> folder_;  // before the engine, whose last save writes there
  std::optional<PendingSave> pending_save_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Runner> runner_;
  std::optional<Thawing> thawing_;
  std::vector<std::string> hosts_;    // of each rank; on rank 0
  std::unique_ptr<Metrics> metrics_;  // rank 0 only, from announce_start() on
  SavedRun identity_;                 // of this run, as its checkpoints tell it

  Progress progress_;
  std::string started_from_;    // a checkpoint; empty: a fresh start
  int64_t saved_batches_ = -1;  // Progress::num_batches in the newest checkpoint; -1:
                                // none
  TimeLimit time_limit_;
  SavePace save_pace_;
  std::optional<EvalPace> eval_pace_;  // none: by the step, or at the end only
  bool save_is_due_ = false;
  bool evaluation_is_due_ = false;
  bool is_evaluating_ = false;
  bool has_ended_ = false;          // before this process
  bool signals_cost_ = false;       // mpirun may not wait for the save; rank 0
  int64_t saved_step_ = 0;          // of the newest checkpoint; 0: there is none
  BestStep saved_best_;             // whose checkpoint is there
  std::exception_ptr failed_save_;  // of the newest that was tried; null: it did not fail
  std::vector<double> losses_;      // of this process's steps
  std::optional<CoreWatch> cores_;  // since the first step
  MeanShares shares_;               // of the same, but for the first, which warms up
  double save_wait_ = 0;            // seconds for saves, which no step's line has told
  Eta eta_;
};

}  // namespace zero::launcher

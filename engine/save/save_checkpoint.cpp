#include "engine/save/save_job.h"
#include "engine/save/saves.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero {
namespace {

std::shared_ptr<Save> begin_save(Engine& engine, const SavePlace& place,
                                 const SavedState& state, const SaveOptions& options) {
  Saves& saves = engine.saves();
  saves.finish_last();
  return saves.start(std::make_unique<SaveJob>(engine, place, state, options),
                     options.step_throws);
}

}  // namespace

std::shared_ptr<Save> save_async(Engine& engine, const std::string& run,
                                 const SavedState& state, const SaveOptions& options) {
  return begin_save(engine, {.path = run}, state, options);
}

std::shared_ptr<Save> save_async(Engine& engine, const checkpoint::OpenRun* run,
                                 const SavedState& state, const SaveOptions& options) {
  return begin_save(engine, {.run = run}, state, options);
}

std::string save_checkpoint(Engine& engine, const std::string& run,
                            const SavedState& state, bool replace) {
  return save_async(engine, run, state, {.replace = replace})->wait();
}

std::string save_checkpoint(Engine& engine, const checkpoint::OpenRun* run,
                            const SavedState& state, bool replace) {
  return save_async(engine, run, state, {.replace = replace})->wait();
}

}  // namespace zero

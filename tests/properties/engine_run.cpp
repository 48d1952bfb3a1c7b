// The same with an engine on every rank.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "tests/properties/net.h"
#include "tests/properties/runs.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::properties {
namespace {

namespace fs = std::filesystem;

// What a checkpoint must hold.
struct Saved {
  std::string path;
  int pick = 0;
  int64_t num_steps = 0;
  std::vector<at::Tensor> params, buffers;
};

template <class Call>
void require_refusal(const std::string& what, Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kUsage) return;
    throw;
  }
  throw Mismatch(what + " was not refused");
}

class EngineRank {
 public:
  EngineRank(const Case& of, std::unique_ptr<Ranks> comm)
      : case_(of),
        options_(options_of(of)),
        rank_(comm->rank()),
        // Other first values on other ranks: those of rank 0 are taken.
        model_(std::make_shared<RootImpl>(of, rank_)),
        params_(params_of(*model_)),
        engine_(model_, options_, std::move(comm)) {
    for (const auto& [fqn, param] : params_)
      is_trained_.push_back(!engine_.is_frozen(fqn));
  }
  ~EngineRank() { model_->fuse().left = -1; }

  void run(const std::string& folder) {
    folder_ = folder;
    for (const Step& step : make_schedule(case_)) {
      event_ = step.event;
      try {
        play(step);
      } catch (const std::exception& error) {
        throw Mismatch("at event " + std::to_string(event_) + ": " + error.what());
      }
    }
  }

  Log log;
  std::vector<Saved> saved;

 private:
  void play(const Step& step) {
    switch (step.what) {
      case Do::kForward:
        return forward_with_gradients(step);
      case Do::kNoGrad:
        return forward_without(step);
      case Do::kThrowInForward:
        return throw_in_forward(step);
      case Do::kBackward:
      case Do::kBackwardOfTwo:
        return backward(step);
      case Do::kForeign:
        return foreign(step);
      case Do::kDrop:
        for (const int number : step.losses) losses_.erase(number);
        return;
      case Do::kTrain:
      case Do::kEval:
        model_->train(step.what == Do::kTrain);
        return;
      case Do::kThrowInBackward:
        return throw_in_backward(step);
      case Do::kDiscard:
        engine_.discard_gradients();
        return see_buffers();
      case Do::kStep:
        return finish_step(step);
      case Do::kLook:
        return look(step);
      case Do::kSet:
        return set(step);
      case Do::kAverage:
        engine_.average_buffers();
        return see_buffers();
      case Do::kSave:
        return save(step);
      case Do::kLoad:
        return load(step);
      case Do::kUseOld:
        return require_refusal("backward of an older step", [&] {
          engine_.backward(losses_.at(step.losses[0]).second, 1);
        });
      case Do::kFreeze:
        return freeze(step);
      case Do::kCallDirect:
        return call_direct(step);
    }
  }

  void see(const std::string& what, const at::Tensor& value) {
    log.push_back({event_, what, value.detach().cpu().clone()});
  }
  void see_buffers() {
    for (const auto& item : model_->named_buffers())
      see("buffer " + item.key(), item.value());
  }
  void see_params() {
    for (const auto& [fqn, param] : params_)
      see("parameter " + fqn, engine_.full_parameter(fqn));
  }

  std::pair<at::Tensor, at::Tensor> forward(const Step& step) {
    auto [x, c] = data_of(case_, step, rank_);
    x.set_requires_grad(torch::GradMode::is_enabled() && case_.setting("x_needs_grad"));
    return {x, engine_.forward(model_, x, c, step.flip)};
  }
  void forward_with_gradients(const Step& step) {
    const auto [x, loss] = forward(step);
    see("loss", loss);
    losses_[step.losses[0]] = {x, loss};
    see_buffers();
  }
  void forward_without(const Step& step) {
    const torch::NoGradGuard no_grad;
    see("loss", forward(step).second);
    see_buffers();
  }

  void throw_in_forward(const Step& step) {
    model_->fuse().left = step.pick % 6;
    bool has_thrown = false;
    try {
      forward(step);
    } catch (const Burnt&) {
      has_thrown = true;
    }
    model_->fuse().left = -1;
    see("exception", torch::tensor(has_thrown));
    see_buffers();
  }

  void backward(const Step& step) {
    at::Tensor sum = torch::zeros({});
    for (const int number : step.losses) sum = sum + losses_.at(number).second;
    const auto run = [&] { engine_.backward(sum, num_targets_of(step, rank_)); };
    if (step.is_refused) return require_refusal("backward", run);
    run();
    for (const int number : step.losses) {
      if (case_.setting("x_needs_grad"))
        see("gradient of x", losses_.at(number).first.grad());
      losses_.erase(number);
    }
    see_buffers();
  }

  // Whether a body runs in backward at all depends on units and wrapping: the gradients
  // are discarded in any case.
  void throw_in_backward(const Step& step) {
    model_->fuse().left = step.pick % 3;
    try {
      engine_.backward(losses_.at(step.losses[0]).second, 1);
    } catch (const Burnt&) {
      require_refusal("a forward after a backward that failed", [&] { forward(step); });
    }
    model_->fuse().left = -1;
    losses_.erase(step.losses[0]);
    engine_.discard_gradients();
    see_buffers();
  }

  void foreign(const Step& step) {
    const auto& [x, loss] = losses_.at(step.losses[0]);
    see("foreign gradient of x",
        torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/!step.ends_losses)[0]);
    if (step.ends_losses) losses_.erase(step.losses[0]);
    see_buffers();
  }

  void look(const Step& step) {
    for (const auto& [fqn, param] : params_) {
      if (!param.requires_grad()) continue;
      const auto run = [&] {
        const at::Tensor gradient = engine_.full_gradient(fqn);
        see("gradient of " + fqn, gradient);
      };
      step.is_refused ? require_refusal("full_gradient", run) : run();
    }
  }

  void finish_step(const Step& step) {
    if (step.is_refused) return require_refusal("step", [&] { engine_.step(); });
    const StepReport report = engine_.step();
    if (report.skipped) throw Mismatch("the step was skipped: " + report.first_bad);
    see("loss of the step", torch::tensor(report.loss));
    see("number of targets", torch::tensor(report.num_targets));
    see("norm", torch::tensor(report.grad_norm));
    see("clip_coef", torch::tensor(report.clip_coef));
    see_params();
    see_buffers();
  }

  void set(const Step& step) {
    const auto& [fqn, param] = params_[step.pick % params_.size()];
    const auto run = [&] {
      engine_.set_full_parameter(fqn, new_value(step, param.sizes()));
    };
    if (step.is_refused) return require_refusal("set_full_parameter", run);
    run();
    see_params();
  }

  void freeze(const Step& step) {
    if (step.is_refused)
      return require_refusal("freezing inside a step",
                             [&] { engine_.set_frozen("head", true); });
    for (const int number : step.losses) losses_.erase(number);
    const size_t p = step.pick % params_.size();
    if (may_freeze(params_[p].first, is_trained_[p]))
      engine_.set_frozen(params_[p].first, step.flip);
  }

  void save(const Step& step) {
    Saved now{{}, step.pick, engine_.num_steps(), {}, {}};
    for (const auto& [fqn, param] : params_)
      now.params.push_back(engine_.full_parameter(fqn));
    for (const auto& item : model_->named_buffers())
      now.buffers.push_back(engine_.averaged_buffer(item.key()));
    SavedState state;
    state.step = engine_.num_steps();
    now.path =
        save_checkpoint(engine_, folder_ + "/" + std::to_string(saved.size()), state);
    saved.push_back(std::move(now));
  }

  void load(const Step& step) {
    for (const int number : step.losses) losses_.erase(number);
    engine_.discard_gradients();
    load_checkpoint(engine_, saved.back().path);
    see_params();
    see_buffers();
  }

  // Some unit refuses it, or a parameter that is not there does, or nobody.
  void call_direct(const Step& step) {
    auto [x, c] = data_of(case_, step, rank_);
    try {
      model_->forward(x, c, step.flip);
    } catch (const std::exception&) {
    }
  }

  const Case& case_;
  const Options options_;
  const int rank_;
  std::string folder_;
  std::shared_ptr<RootImpl> model_;
  std::vector<std::pair<std::string, at::Tensor>> params_;
  Engine engine_;
  std::vector<bool> is_trained_;                             // of params_, by the plan
  std::map<int, std::pair<at::Tensor, at::Tensor>> losses_;  // x and loss, by number
  int event_ = 0;
};

void expect_loaded(const Case& of, const Saved& saved, std::unique_ptr<Ranks> comm) {
  Options options = options_of(of);
  options.deterministic = false;  // it may be three ranks
  if (comm->size() % std::max(1, options.shard_ranks) != 0) options.shard_ranks = 0;
  if (options.shard_ranks > 0) options.speculate_bytes = 0;
  const auto model = std::make_shared<RootImpl>(of, /*key=*/77);
  Engine engine(model, options, std::move(comm));
  load_checkpoint(engine, saved.path);
  if (engine.num_steps() != saved.num_steps) throw Mismatch("num_steps after a load");
  size_t i = 0;
  for (const auto& [fqn, param] : params_of(*model)) {
    if (!torch::equal(engine.full_parameter(fqn), saved.params[i++]))
      throw Mismatch(fqn + " after a load");
  }
  i = 0;
  for (const auto& item : model->named_buffers()) {
    if (!torch::equal(item.value().cpu(), saved.buffers[i++]))
      throw Mismatch("buffer " + item.key() + " after a load");
  }
}

// The same on every rank.
std::string make_folder(Ranks& comm) {
  const int64_t id = comm.largest(comm.rank() == 0 ? getpid() : 0, "folder");
  return (fs::temp_directory_path() / ("zero_properties_" + std::to_string(id))).string();
}

}  // namespace

std::vector<Log> run_engine(const Case& of, const Start& start) {
  std::vector<Log> logs(of.ranks);
  std::vector<Saved> saved;
  std::string folder;
  std::mutex mutex;
  start(of.ranks, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    const std::string mine = make_folder(*comm);
    EngineRank run(of, std::move(comm));
    run.run(mine);
    const std::lock_guard lock(mutex);
    logs[rank] = std::move(run.log);
    saved = std::move(run.saved);
    folder = mine;
  });
  for (const Saved& one : saved) {
    start(1 + one.pick % 4,
          [&](std::unique_ptr<Ranks> comm) { expect_loaded(of, one, std::move(comm)); });
  }
  std::error_code may_be_gone;  // another process was faster
  if (!saved.empty()) fs::remove_all(folder, may_be_gone);
  return logs;
}

}  // namespace zero::properties

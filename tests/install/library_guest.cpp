// A program that uses the engine as a library and looks at what that does to its process.
// contract_test.sh runs it.
//
//   side_effects   signal handlers and CPUs are the same after an engine's life; its
//   errors can be caught own_mpi        MPI that this program initialised is still its
//   own after an engine's life parameters     what docs/library.md says of groups, first
//   values, parameters and the caller's own exchanges throw          rank 1 throws in the
//   middle of training, and nobody catches it catch          rank 1 throws in the middle
//   of training, and its main() returns 4
#include <mpi.h>
#include <sched.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "checkpoint/error.h"
#include "zero/deferred_init.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"
#include "zero/save_load.h"
#include "zero/unit.h"

namespace {

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(int64_t width)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return linear(x).relu(); }
  torch::nn::Linear linear;
};

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", zero::Unit<LayerImpl>(64))),
        last(register_module("last", zero::Unit<LayerImpl>(64))) {}
  at::Tensor forward(const at::Tensor& x) { return last(first(x)).square().sum(); }
  zero::Unit<LayerImpl> first, last;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

template <class Expected>
void require_throws(const std::function<void()>& body, const char* what) {
  try {
    body();
  } catch (const Expected&) {
    return;
  }
  throw std::runtime_error(what);
}

std::shared_ptr<NetImpl> make_model() {
  const zero::DeferredInit guard;
  return std::make_shared<NetImpl>();
}

// An engine's life of three steps; `at_step(rank, step)` is called between a forward and
// its backward.
void train(const std::function<void(int rank, int64_t step)>& at_step = [](int, int64_t) {
}) {
  const auto model = make_model();
  zero::Engine engine(model, {});
  for (int64_t step = 0; step < 3; ++step) {
    const at::Tensor loss = engine.forward(model, torch::ones({4, 64}));
    at_step(engine.rank(), step);
    engine.backward(loss, 4);
    engine.step();
  }
  engine.full_parameter("last.linear.weight");
}

struct ProcessState {
  std::array<struct sigaction, 65> handlers{};
  cpu_set_t cpus;
};

ProcessState look() {
  ProcessState state;
  for (int signal = 1; signal < 65; ++signal)
    sigaction(signal, nullptr, &state.handlers[signal]);
  sched_getaffinity(0, sizeof state.cpus, &state.cpus);
  return state;
}

void require_same(const ProcessState& before, const ProcessState& after) {
  require(CPU_EQUAL(&before.cpus, &after.cpus), "the CPUs of this thread changed");
  for (int signal = 1; signal < 65; ++signal) {
    const struct sigaction &one = before.handlers[signal],
                           &other = after.handlers[signal];
    require(one.sa_handler == other.sa_handler && one.sa_flags == other.sa_flags,
            ("the handler of signal " + std::to_string(signal) + " changed").c_str());
  }
}

void initialise_mpi() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
}

void check_side_effects() {
  const bool is_launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (is_launched) initialise_mpi();  // OpenMPI sets handlers of its own there
  const ProcessState before = look();
  train();
  zero::Options wrong;
  wrong.clip = -1;
  require_throws<zero::Error>([&] { zero::Engine(make_model(), wrong); },
                              "negative clip was taken");
  {
    zero::Engine engine(make_model(), {});
    require_throws<zero::checkpoint::CheckpointError>(
        [&] { zero::load_checkpoint(engine, "/no/such/folder"); },
        "a missing checkpoint was loaded");
  }
  require_same(before, look());
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  require(is_initialised == is_launched, "a process on its own was made a rank of MPI");
  if (is_launched) MPI_Finalize();
}

void check_own_mpi() {
  initialise_mpi();
  train();
  train();  // a second engine in the same process
  int is_finalized = 1, rank = 0;
  MPI_Finalized(&is_finalized);
  require(!is_finalized, "the engine finalised MPI");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(sum == 2, "MPI does not connect two ranks any more");
  require(MPI_Finalize() == MPI_SUCCESS, "MPI_Finalize failed");
}

void check_parameters() {
  zero::Options options;
  options.groups = {{"first.*", 1, {}, /*frozen=*/true}, {"*.bias", 2, 0.0}};
  options.init = {{"first.linear.weight", zero::normal(0, 0.02)}};
  const auto model = make_model();
  zero::Engine engine(model, options, zero::make_ranks()->duplicate());
  require_throws<std::exception>([&] { model->first->linear->weight.sum(); },
                                 "a released parameter was read");

  const at::Tensor frozen = engine.full_parameter("first.linear.weight");
  const at::Tensor trained = engine.full_parameter("last.linear.weight");
  require(std::abs(frozen.std().item<double>() - 0.02) < 0.002,
          "the rule for first values was not followed");
  require(trained.abs().max().item<double>() <= 1.0 / 8,
          "a linear layer did not start as torch starts it");
  engine.backward(engine.forward(model, torch::ones({4, 64})), 4);
  require(engine.full_gradient("last.linear.weight").norm().item<double>() > 0,
          "there is no gradient");
  engine.step();
  require(at::equal(frozen, engine.full_parameter("first.linear.weight")),
          "a frozen parameter changed");
  require(!at::equal(trained, engine.full_parameter("last.linear.weight")),
          "a parameter did not change");

  const at::Tensor mine = torch::arange(64 * 64, at::kFloat).view({64, 64});
  engine.set_full_parameter("last.linear.weight", mine);
  require(at::equal(mine, engine.full_parameter("last.linear.weight")),
          "a written parameter reads otherwise");
  for (const zero::ShardView& view : engine.shards()) {
    for (float& value : view.master.span()) value = 0;
  }
  engine.masters_changed();
  const torch::NoGradGuard no_grad;
  require(engine.forward(model, torch::ones({4, 64})).item<double>() == 0,
          "written shards are not used");

  double sum = 1;
  engine.control().all_reduce(std::span(&sum, 1), zero::ReduceOp::kSum, "my value");
  require(sum == engine.size(), "the ranks' sum is wrong");
}

void throw_on_rank_1(int rank, int64_t step) {
  if (rank == 1 && step == 1) throw std::runtime_error("rank 1 had enough");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  torch::set_num_threads(1);
  if (mode == "side_effects") return check_side_effects(), 0;
  if (mode == "own_mpi") return check_own_mpi(), 0;
  if (mode == "parameters") return check_parameters(), 0;
  if (mode == "throw") return train(throw_on_rank_1), 0;
  if (mode != "catch") return 2;
  try {
    train(throw_on_rank_1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
  return 0;
}

#include "launcher/run/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

#include "checkpoint/error.h"
#include "engine/comm/started_ranks.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "offload/host_arena.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kTurn = 1000ms;  // that a failing rank gives each one below it
constexpr auto kLongestWait = kWaitForOthers;
constexpr auto kDelivery = 200ms;  // for mpirun to pass printed lines on

const std::string kMemoryCure =
    "more ranks, a smaller micro_batch or seq_len, or recompute = \"unit\", on a GPU "
    "with offload_activations";

// torch appends where in its sources the check stands, and a stack.
std::string without_stack(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Error describe_other(const std::string& text) {
  for (const char* sign : {"can't allocate memory", "out of memory"}) {
    if (text.find(sign) != text.npos)
      return {ExitCode::kEnvironment, without_stack(text), "", kMemoryCure};
  }
  return {ExitCode::kTraining, without_stack(text)};
}

// Those of a checkpoint go on from its file's name.
std::string with_subject(const std::string& problem) {
  for (const char* verb : {"has ", "is ", "does ", "names ", "lies "})
    if (problem.starts_with(verb)) return "it " + problem;
  return problem;
}

std::string joined(const std::string& file, const std::string& fqn) {
  return file + (file.empty() || fqn.empty() ? "" : ", ") + fqn;
}

// zero: lr is "-1"; allowed: a finite number, 0 or more
//   where: --lr
//   try:   zero_launch train --help lists every setting and what it allows
void print_error(const Error& error) {
  if (error.code() == ExitCode::kInterrupted && started_rank()) return;  // it will
  set_status("");
  const std::string shown =
      painted("zero:", Colour::kRed, stderr) + " " + printable(error.what()) + "\n";
  write_out(stderr, shown);
}

}  // namespace

Error describe(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e;
  } catch (const checkpoint::CheckpointError& e) {
    return {ExitCode::kCheckpoint, with_subject(e.problem()), joined(e.file(), e.fqn()),
            e.cure()};
  } catch (const HostMemoryError& e) {
    return {ExitCode::kEnvironment, e.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kEnvironment, "out of host memory", "", kMemoryCure};
  } catch (const std::filesystem::filesystem_error& e) {
    return {ExitCode::kCheckpoint, e.code().message(), e.path1().string()};
  } catch (const std::system_error& e) {
    return {ExitCode::kEnvironment, e.what()};
  } catch (const std::exception& e) {
    return describe_other(e.what());
  } catch (...) {
    return {ExitCode::kTraining, "an exception without a text"};
  }
}

int report_alone(const Error& error, std::optional<int> announced_rank,
                 std::chrono::milliseconds wait) {
  const int rank = announced_rank.value_or(0);
  if (rank == 0) {
    print_error(error);
  } else {
    forget_stop_signals();  // mpirun must be able to end a rank that waits for its turn
    std::this_thread::sleep_for(wait);
    print_error({error.code(), error.problem(),
                 joined(error.where(), fmt::format("rank {}", rank)), error.cure()});
  }
  if (announced_rank) std::this_thread::sleep_for(kDelivery);
  return static_cast<int>(error.code());
}

int report_and_end(const Error& error, World& world) {
  if (world.size() == 1) {
    print_error(error);
    return static_cast<int>(error.code());
  }
  // mpirun must be able to end a rank that waits for its turn; who starts ranks here can.
  if (!world.is_started_here()) forget_stop_signals();
  std::this_thread::sleep_for(
      std::min<std::chrono::milliseconds>(kTurn * world.rank(), kLongestWait));
  const std::string rank = fmt::format("rank {} of {}", world.rank(), world.size());
  print_error({error.code(), error.problem(), joined(error.where(), rank), error.cure()});
  std::this_thread::sleep_for(kDelivery);
  world.abort(error.code());
}

int run_or_end(World& world, const std::function<ExitCode()>& work) {
  try {
    return static_cast<int>(work());
  } catch (...) {
    return report_and_end(describe(std::current_exception()), world);
  }
}

}  // namespace zero::launcher

#include "launcher/bench/bench_ranks.h"

#include <span>
#include <utility>

#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/own_folder.h"
#include "engine/comm/agreement.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

std::unique_ptr<checkpoint::OwnFolder> make_bench_folder(const std::string& above) try {
  return std::make_unique<checkpoint::OwnFolder>(above,
                                                 checkpoint::temporary_name("bench"));
} catch (const checkpoint::CheckpointError& error) {
  throw Error(ExitCode::kCheckpoint, error.problem(), above,
              "--out DIR: a folder that is there and may be written");
}

}  // namespace

Contestant slowest_of(Ranks& ranks, Contestant work) {
  return [&ranks, work = std::move(work)] {
    ranks.barrier("bench");
    double seconds = work();
    ranks.all_reduce(std::span(&seconds, 1), ReduceOp::kMax, "bench");
    return seconds;
  };
}

BenchFolder::BenchFolder(const std::string& above, Ranks& ranks) {
  Agreement(ranks, "bench folder").run([&] {
    if (ranks.rank() == 0) own_ = make_bench_folder(above.empty() ? "." : above);
  });
  path_ = ranks.broadcast(own_ ? own_->path() : "");
}

BenchFolder::~BenchFolder() = default;

}  // namespace zero::launcher

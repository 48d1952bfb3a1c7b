// Random small models and schedules: what ranks with an engine see equals what plain
// LibTorch gives.
//
//   property_tests --seeds 0:500      cases of these seeds, on 1 to 4 threads
//   property_tests --ranks 6 --group 3   of so many ranks, in groups of so many
//   property_tests --show 17          the case of a seed
//   property_tests --quick            stop at the first that fails, as it is
//   property_tests --gpu              engines compute on GPUs, each rank on its own
//   mpirun -n 2 property_tests --processes --seeds 0:50
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "engine/comm/thread_ranks.h"
#include "tests/properties/child.h"
#include "tests/properties/runs.h"
#include "tests/properties/shrink.h"
#include "zero/gpu.h"
#include "zero/ranks.h"

namespace zero::properties {
namespace {

constexpr int kPatienceSeconds = 60;
constexpr int kTriesToShrink = 600;

struct Arguments {
  uint64_t first = 0, last = 500;
  int ranks = 0, group = -1, jobs = 2;  // group -1: any that divides the ranks
  bool only_shows = false, has_processes = false, stops = false, on_gpu = false;

  Case make(uint64_t seed, int num_ranks, bool may_draw) const {
    Case result = make_case(seed, num_ranks, may_draw);
    if (on_gpu) result.settings["gpu"] = 1;
    if (group >= 0) set_group(result, group);
    return result;
  }
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(
      stderr,
      "property_tests: %s\n"
      "usage: property_tests [--seeds FIRST:END] [--ranks 1..8] [--group 0..8] "
      "[--jobs 1..64] [--quick] [--gpu]\n"
      "       property_tests --show SEED [--ranks 1..8]\n"
      "       mpirun -n N property_tests --processes [--seeds FIRST:END] [--gpu]\n",
      what.c_str());
  std::exit(2);
}

uint64_t number(const std::string& name, const std::string& text, uint64_t from,
                uint64_t to) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])) || *end ||
      errno || value < from || value > to)
    refuse(name + " is '" + text + "', expected a number from " + std::to_string(from) +
           " to " + std::to_string(to));
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments result;
  constexpr uint64_t kEnd = 1ull << 60;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--processes") result.has_processes = true;
    if (name == "--quick") result.stops = true;
    if (name == "--gpu") result.on_gpu = true;
    if (name == "--processes" || name == "--quick" || name == "--gpu") continue;
    if (name != "--seeds" && name != "--show" && name != "--ranks" && name != "--group" &&
        name != "--jobs")
      refuse("unknown argument " + name);
    if (++i == argc) refuse(name + " needs a value");
    const std::string value = argv[i];
    if (name == "--ranks") result.ranks = static_cast<int>(number(name, value, 1, 8));
    if (name == "--group") result.group = static_cast<int>(number(name, value, 0, 8));
    if (name == "--jobs") result.jobs = static_cast<int>(number(name, value, 1, 64));
    if (name == "--show") {
      result.only_shows = true;
      result.first = number(name, value, 0, kEnd);
    }
    if (name == "--seeds") {
      const size_t colon = value.find(':');
      if (colon == std::string::npos) refuse("--seeds is '" + value + "', not FIRST:END");
      result.first = number(name, value.substr(0, colon), 0, kEnd);
      result.last = number(name, value.substr(colon + 1), result.first, kEnd);
    }
  }
  return result;
}

// The first rank's error is rethrown: those of others follow from it.
void on_threads(int ranks, const Body& body) {
  auto groups = make_thread_ranks(ranks);
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (auto& group : groups) {
    threads.emplace_back([&] {
      try {
        // Kept until here, so that others learn of an error after it was noted.
        body(std::move(group));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

// The same case with the options that change no bit.
Case with_other_speed(Case of) {
  const auto flip = [&](const std::string& name, int one, int other) {
    of.settings[name] = of.setting(name) == one ? other : one;
  };
  flip("prefetch", 0, 2);
  flip("reshard", 0, 1);
  flip("stream_always", 0, 1);
  flip("chaos", 0, 1);
  flip("offload", 0, 1);
  flip("home", 0, 2);
  if (!has_groups(of)) flip("speculate", 0, 2);
  bool may_flip_recompute = true;
  for (const Event& event : of.events)
    may_flip_recompute = may_flip_recompute && event.what != Do::kThrowInBackward;
  if (may_flip_recompute) flip("recompute", 0, 1);
  return of;
}

// False: plain LibTorch cannot run the case either. Throws if the engine is wrong.
bool run_case(const Case& of, const Start& start) {
  std::vector<Log> expected;
  try {
    expected = run_plain(of);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::printf("seed %lu is void: %s\n", of.seed,
                text.substr(0, text.find('\n')).c_str());
    std::fflush(stdout);
    return false;
  }
  const std::vector<Log> logs = run_engine(of, start);
  for (int rank = 0; rank < of.ranks; ++rank) {
    if (!logs[rank].empty()) compare(of, logs[rank], expected[rank], false);
  }
  if (of.setting("other_speed") == 0) return true;
  const std::vector<Log> others = run_engine(with_other_speed(of), start);
  for (int rank = 0; rank < of.ranks; ++rank) compare(of, others[rank], logs[rank], true);
  return true;
}

// "" if all is well; else what is wrong.
std::string failure_of(const Case& of) {
  Child child([&](const Child::Report& report) {
    at::set_num_threads(1);
    run_case(of, on_threads);
    report("done");
  });
  const std::string text = child.next(kPatienceSeconds).value_or("");
  return text == "done" ? "" : text + child.end();
}

void explain(const Case& failing, const std::string& what) {
  std::printf("seed %lu fails: %s\n", failing.seed, what.c_str());
  std::fflush(stdout);
  std::string last = failure_of(failing);
  if (last.empty()) {
    std::printf("alone it does not fail: look at the seeds before it, or at timing\n%s\n",
                to_string(failing).c_str());
    return;
  }
  const auto fails = [&](const Case& smaller) {
    const std::string text = failure_of(smaller);
    if (!text.empty()) last = text;
    return !text.empty();
  };
  const Case smallest = shrink(failing, fails, kTriesToShrink);
  std::printf("the smallest that still fails: %s\n%s\n", last.c_str(),
              to_string(smallest).c_str());
  std::fflush(stdout);
}

// Every jobs-th seed, in a process that others replace when it fails.
class Worker {
 public:
  Worker(const Arguments& arguments, uint64_t first)
      : arguments_(arguments), seed_(first) {
    start();
  }
  bool is_over() const { return seed_ >= arguments_.last; }
  int pipe() const { return child_->pipe(); }

  // Takes in one report.
  void advance() {
    const auto report = child_->next(kPatienceSeconds);
    if (report == "done" || report == "void") {
      num_void += *report == "void";
      seed_ += arguments_.jobs;
      return;
    }
    ++num_failed;
    const std::string text = report.value_or("") + child_->end();
    if (arguments_.stops) {
      std::printf("seed %lu fails: %s\n", seed_, text.c_str());
      seed_ = arguments_.last;
      return;
    }
    explain(arguments_.make(seed_, arguments_.ranks, false), text);
    seed_ += arguments_.jobs;
    start();
  }

  int num_void = 0, num_failed = 0;

 private:
  void start() {
    child_.reset();
    child_ = std::make_unique<Child>([this](const Child::Report& report) {
      at::set_num_threads(1);
      for (uint64_t seed = seed_; seed < arguments_.last; seed += arguments_.jobs) {
        report(run_case(arguments_.make(seed, arguments_.ranks, false), on_threads)
                   ? "done"
                   : "void");
      }
    });
  }

  const Arguments& arguments_;
  uint64_t seed_;
  std::unique_ptr<Child> child_;
};

int run_on_threads(const Arguments& arguments) {
  std::list<Worker> workers;
  for (int job = 0; job < arguments.jobs; ++job)
    workers.emplace_back(arguments, arguments.first + job);
  int num_void = 0, num_failed = 0;
  bool is_over = false;
  while (!is_over) {
    is_over = true;
    for (Worker& worker : workers) {
      if (worker.is_over()) continue;
      worker.advance();
      is_over = false;
    }
  }
  for (const Worker& worker : workers) {
    num_void += worker.num_void;
    num_failed += worker.num_failed;
  }
  std::printf("%lu cases: %d failed, %d void\n", arguments.last - arguments.first,
              num_failed, num_void);
  return num_failed > 0;
}

// Ranks are the processes of mpirun; nothing is made smaller.
int run_on_processes(const Arguments& arguments) {
  at::set_num_threads(1);
  const auto world = make_ranks();
  const Start start = [&](int, const Body& body) { body(world->duplicate()); };
  int num_void = 0;
  for (uint64_t seed = arguments.first; seed < arguments.last; ++seed) {
    const Case of = arguments.make(seed, world->size(), /*may_draw=*/true);
    try {
      num_void += !run_case(of, start);
    } catch (const std::exception& error) {
      std::printf("[rank %d] seed %lu fails: %s\n%s\n", world->rank(), seed, error.what(),
                  to_string(of).c_str());
      return 1;
    }
  }
  if (world->rank() == 0)
    std::printf("%lu cases: none failed, %d void\n", arguments.last - arguments.first,
                num_void);
  return 0;
}

}  // namespace
}  // namespace zero::properties

int main(int argc, char** argv) {
  using namespace zero::properties;
  const Arguments arguments = parse(argc, argv);
  if (arguments.only_shows) {
    std::fputs(to_string(arguments.make(arguments.first, arguments.ranks, false)).c_str(),
               stdout);
    return 0;
  }
  if (arguments.on_gpu && zero::num_gpus() == 0) refuse("--gpu, and there is none");
  return arguments.has_processes ? run_on_processes(arguments)
                                 : run_on_threads(arguments);
}

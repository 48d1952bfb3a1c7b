#include "engine/comm/mpi.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <sstream>

#include "base/processes.h"
#include "launcher/doctor/finding.h"
#include "launcher/process/mpirun.h"
#include "launcher/process/process.h"
#include "launcher/run/failure.h"
#include "offload/affinity.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

constexpr double kHelloLimit = 10;  // seconds

std::string first_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && line.find_first_not_of(" -\t") == line.npos) {
  }
  return line;
}

bool is_in_path(const std::string& program, const std::vector<std::string>& environment) {
  std::istringstream folders(variable(environment, "PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Its first two numbers; a last one mends faults, and MPI stays the same.
std::string series(const std::string& version) {
  const size_t second = version.find('.', version.find('.') + 1);
  return version.substr(0, second);
}

Finding judge_mpirun(const MpiFacts& facts) {
  const std::string other =
      "PATH, or `module load`, with the mpirun of the OpenMPI that zero_launch was built "
      "with";
  if (facts.mpirun.empty() && facts.announced)
    return {Mark::kOk, "mpirun", "not in PATH, and not needed here"};
  if (facts.mpirun.empty())
    return {Mark::kNote, "mpirun", "not in PATH: ranks of this host alone can train",
            "apt-get install openmpi-bin; " + other};
  if (facts.mpirun.find("Open MPI") == std::string::npos &&
      facts.mpirun.find("OpenRTE") == std::string::npos)
    return {Mark::kBad, "mpirun", facts.mpirun + ": not OpenMPI's", other};
  const std::string mpirun = version_in(facts.mpirun),
                    library = version_in(facts.library);
  if (series(mpirun) != series(library))
    return {Mark::kBad, "mpirun",
            fmt::format("{} is in PATH, the library is {}: each rank may train by itself",
                        mpirun, library),
            other};
  return {Mark::kOk, "mpirun", mpirun};
}

Finding judge_slurm(const MpiFacts& facts) {
  const std::string cure = "srun --mpi=pmix zero_launch train ...";
  const bool is_srun = facts.announced && facts.announced->source.starts_with("SLURM");
  if (is_srun && facts.announced->size > 1 && !facts.has_pmix)
    return {Mark::kBad, "Slurm", "srun has started ranks without PMIx: each is alone",
            cure};
  if (!facts.announced && facts.num_slurm_tasks > 1)
    return {Mark::kNote, "Slurm",
            fmt::format("a job of {} tasks, of which this is one process",
                        facts.num_slurm_tasks),
            fmt::format("{}; or --ranks {}", cure, facts.num_slurm_tasks)};
  if (facts.num_slurm_tasks > 0) return {Mark::kOk, "Slurm", "in a job"};
  return {Mark::kOk, "Slurm",
          facts.has_srun ? "srun is in PATH: " + cure : "no srun in PATH"};
}

Finding judge_root(const MpiFacts& facts) {
  if (!facts.is_root) return {Mark::kOk, "user", "not root"};
  if (facts.allows_root)
    return {Mark::kOk, "user", "root, which mpirun was told to allow"};
  return {Mark::kNote, "user", "root, which an mpirun of your own refuses",
          "--ranks N sees to it; else OMPI_ALLOW_RUN_AS_ROOT=1 "
          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
}

Finding judge_hello(const MpiFacts& facts) {
  if (!facts.hello)
    return {Mark::kNote, "hello", "not tried: there is no mpirun",
            "install one, as above"};
  const Hello& hello = *facts.hello;
  const std::string cure = !hello.cure.empty()
                               ? hello.cure
                               : "mpirun -n 2 hostname; where a network is in the way "
                                 "OMPI_MCA_btl=self,vader and "
                                 "OMPI_MCA_oob_tcp_if_include=lo keep to this host";
  if (hello.outcome.is_late)
    return {Mark::kBad, "hello",
            fmt::format("{} ranks ({}) did not find each other in {:.0f} s",
                        hello.num_ranks, hello.by, hello.limit),
            cure};
  const std::string expected = fmt::format("hello from {} ", hello.num_ranks);
  if (hello.outcome.code != 0 || hello.outcome.text.find(expected) == std::string::npos)
    return {Mark::kBad, "hello",
            fmt::format("{} ranks ({}) could not talk, code {}: {}", hello.num_ranks,
                        hello.by, hello.outcome.code, first_line(hello.outcome.text)),
            cure};
  return {Mark::kOk,
          "hello",
          fmt::format(
              "{}, {:.1f} s ({})",
              first_line(hello.outcome.text.substr(hello.outcome.text.find(expected))),
              hello.outcome.seconds, hello.by),
          "",
          {{"seconds", hello.outcome.seconds}}};
}

}  // namespace

MpiFacts read_mpi(const std::vector<std::string>& environment,
                  const std::optional<AnnouncedWorld>& announced) {
  MpiFacts facts;
  facts.library = mpi_versions().second;
  if (is_in_path("mpirun", environment)) {
    const ChildOutcome told =
        run_child({"mpirun", "--version"}, environment, kHelloLimit);
    facts.mpirun =
        told.text.empty() ? "mpirun --version says nothing" : first_line(told.text);
  }
  facts.has_srun = is_in_path("srun", environment);
  facts.is_root = geteuid() == 0;
  facts.allows_root = variable(environment, "OMPI_ALLOW_RUN_AS_ROOT") &&
                      variable(environment, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
  facts.num_cores = static_cast<int>(widest_affinity().size());
  if (variable(environment, "SLURM_JOB_ID"))
    facts.num_slurm_tasks = std::max(
        1, std::atoi(variable(environment, "SLURM_NTASKS").value_or("").c_str()));
  facts.has_pmix =
      variable(environment, "PMIX_NAMESPACE") || variable(environment, "PMIX_RANK");
  facts.announced = announced;
  return facts;
}

Hello say_hello(const std::vector<std::string>& environment) {
  Hello hello;
  hello.limit = kHelloLimit;
  std::vector<std::string> variables = mpirun_variables(environment, geteuid() == 0);
  variables.insert(variables.end(), environment.begin(), environment.end());
  hello.outcome = run_child(mpirun_words({hello.num_ranks, "", {"hello"}, ""},
                                         path_of_this_program(), environment),
                            variables, hello.limit);
  return hello;
}

std::optional<Hello> join_hello(const std::vector<std::string>& environment,
                                const AnnouncedWorld& announced) {
  Hello hello{announced.size, announced.source, 0, {}, ""};
  hello.outcome.seconds = seconds_of([&] {
    try {
      check_start(environment, announced, 0);
      World world(announced);
      hello.num_ranks = world.size();
      hello.outcome.text = hello_of(world);
    } catch (...) {
      const Error error = describe(std::current_exception());
      hello.outcome.code = static_cast<int>(error.code());
      hello.outcome.text = error.problem();
      hello.cure = error.cure();
    }
  });
  return announced.rank == 0 ? std::optional(hello) : std::nullopt;
}

std::string hello_of(const World& world) {
  const auto hosts = world.make_ranks()->gather(host_name());
  const size_t num_hosts = std::set(hosts.begin(), hosts.end()).size();
  return fmt::format("hello from {} ranks on {} host{}", hosts.size(), num_hosts,
                     num_hosts == 1 ? "" : "s");
}

Findings judge(const MpiFacts& facts) {
  return {
      {Mark::kOk, "library", facts.library.substr(0, facts.library.find(','))},
      judge_mpirun(facts),
      judge_slurm(facts),
      judge_root(facts),
      {Mark::kOk, "slots",
       fmt::format("{} rank(s) on this host under an mpirun of your own, a core each; "
                   "--ranks, or --oversubscribe, allows more",
                   facts.num_cores)},
      judge_hello(facts)};
}

}  // namespace zero::launcher

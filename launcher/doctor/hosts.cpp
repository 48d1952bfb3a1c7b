#include "launcher/doctor/hosts.h"

#include <fmt/format.h>
#include <netdb.h>

#include <iterator>
#include <sstream>
#include <thread>

#include "base/processes.h"
#include "base/text.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/process.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr double kReachLimit = 15;  // seconds

bool is_this_host(const std::string& name) {
  const std::string own = host_name();
  return name == "localhost" || name.starts_with("127.") || name == own ||
         name == own.substr(0, own.find('.'));
}

// What the resolver says against a name; "" where it knows it.
std::string resolver_problem(const std::string& name) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
  if (error != 0) return gai_strerror(error);
  freeaddrinfo(found);
  return "";
}

// How mpirun reaches other hosts: ssh, or the first of what OMPI_MCA_plm_rsh_agent names.
std::vector<std::string> agent_words(const std::vector<std::string>& environment) {
  const std::string agents =
      variable(environment, "OMPI_MCA_plm_rsh_agent").value_or("ssh");
  std::istringstream words(agents.substr(0, agents.find(':')));
  std::vector<std::string> agent(std::istream_iterator<std::string>(words), {});
  if (agent.empty()) agent = {"ssh"};
  const bool is_ssh = agent[0] == "ssh" || agent[0].ends_with("/ssh");
  if (is_ssh)
    agent.insert(agent.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=10"});
  return agent;
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last = "no word";
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  return printable(last);
}

}  // namespace

Finding judge_reach(const std::string& host, const std::string& program,
                    const std::string& agent, const ChildOutcome& outcome) {
  const std::string prompt = fmt::format(
      "`{} {} true` must work without a prompt: ssh-copy-id {}", agent, host, host);
  if (outcome.code == kCannotStart)
    return {
        Mark::kBad, host, fmt::format("{} cannot be started here", agent),
        "apt-get install openssh-client; or leave --hosts out for ranks of this host"};
  if (outcome.is_late)
    return {Mark::kBad, host,
            fmt::format("{} had no answer in {:.0f} s", agent, kReachLimit),
            "is the host up, and its port for ssh open? " + prompt};
  if (outcome.code == 1)
    return {Mark::kBad, host, fmt::format("there is no program {}", program),
            "the same path on every host: a shared folder, or copy it there"};
  if (outcome.code != 0)
    return {Mark::kBad, host,
            fmt::format("{} ends with code {}: {}", agent, outcome.code,
                        last_line(outcome.text)),
            prompt};
  return {Mark::kOk, host,
          fmt::format("{} answers in {:.1f} s, and the program is there", agent,
                      outcome.seconds)};
}

namespace {

Finding look_at_host(const std::string& host, const std::string& program,
                     const std::vector<std::string>& agent,
                     const std::vector<std::string>& environment) {
  if (is_this_host(host)) return {Mark::kOk, host, "is this host"};
  if (const std::string problem = resolver_problem(host); !problem.empty())
    return {Mark::kBad, host, "its name leads nowhere: " + problem,
            fmt::format("a name that `getent hosts {}` knows, or an address", host)};
  std::vector<std::string> words = agent;
  words.insert(words.end(), {host, "test", "-x", program});
  try {
    return judge_reach(host, program, agent[0],
                       run_child(words, environment, kReachLimit));
  } catch (const Error& error) {
    return {Mark::kBad, host, error.problem(), error.cure()};
  }
}

}  // namespace

Findings look_at_hosts(const std::string& path,
                       const std::vector<std::string>& environment) {
  const std::vector<std::string> agent = agent_words(environment);
  const std::string program = path_of_this_program();
  const auto slots = slots_of_hosts(path);
  Findings findings(slots.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; const HostSlots& host : slots) {
    threads.emplace_back([&, &finding = findings[i], &name = host.name] {
      finding = look_at_host(name, program, agent, environment);
    });
    ++i;
  }
  threads.clear();  // waits for all
  return findings;
}

void require_hosts(const std::string& path, const std::vector<std::string>& environment) {
  Findings findings = judge(read_mpi(environment, std::nullopt));
  std::erase_if(findings, [](const Finding& each) { return each.name != "mpirun"; });
  // A scheduler's mpirun goes its own ways to the hosts.
  if (!variable(environment, "SLURM_JOB_ID")) {
    const Findings hosts = look_at_hosts(path, environment);
    findings.insert(findings.end(), hosts.begin(), hosts.end());
  }
  for (const Finding& finding : findings) {
    if (finding.mark != Mark::kBad) continue;
    throw Error(ExitCode::kEnvironment, finding.name + ": " + finding.text,
                "--hosts " + path, finding.cure);
  }
}

}  // namespace zero::launcher

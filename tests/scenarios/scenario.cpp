#include "tests/scenarios/scenario.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace zero::scenarios {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Letters that repeat with changes: there is something to learn, and nothing repeats.
std::string some_text() {
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    text += "the quick brown fox "[(i + (state >> 29)) % 20];
  }
  return text;
}

Words mpirun_words(int ranks) { return {"mpirun", "-n", std::to_string(ranks)}; }

Words mpi_variables() {
  Words variables = {"OMPI_MCA_rmaps_base_oversubscribe=1",
                     "OMPI_MCA_btl_vader_single_copy_mechanism=none"};
  if (geteuid() == 0) {
    variables.push_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    variables.push_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  return variables;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

bool names(const Words& words, const std::string& flag) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return word.starts_with(flag); });
}

int64_t product(const json& shape) {
  int64_t numel = 1;
  for (const auto& size : shape) numel *= size.get<int64_t>();
  return numel;
}

void read_rank(const json& index, const std::string& bytes, State& state) {
  for (const auto& parameter : index["parameters"]) {
    for (const std::string kind :
         {"master", "exp_avg", "exp_avg_sq", "momentum_buffer", "sum"}) {
      if (!parameter.contains(kind)) continue;
      auto& all = state.values[kind + " " + parameter["fqn"].get<std::string>()];
      all.resize(product(parameter["shape"]));
      const int64_t numel = parameter["numel"];
      if (numel == 0) continue;
      std::memcpy(&all[parameter["begin"].get<int64_t>()],
                  &bytes[parameter[kind].get<int64_t>()], numel * sizeof(uint32_t));
    }
  }
}

}  // namespace

State read_state(const std::string& folder) {
  State state;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const json index = json::parse(read_file(entry.path()));
    read_rank(index, read_file(fs::path(entry.path()).replace_extension(".bin")), state);
    state.step = index["step"];
    index["losses"].get_to(state.losses);
  }
  return state;
}

Scenario::Scenario() {
  std::string pattern = (fs::temp_directory_path() / "zero_scenario_XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  write("data.txt", some_text());
}

Scenario::~Scenario() {
  for (const pid_t pid : pids_with(folder_)) kill(pid, SIGKILL);
  fs::remove_all(folder_);
}

std::string Scenario::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

Words Scenario::train(const std::string& out, const Words& flags) const {
  Words words =
      verb("train", {"--data", path("data.txt"), "--out", path(out), "--layers=2",
                     "--dim=32", "--heads=2", "--seq-len=16", "--global-batch=8",
                     "--micro-batch=2", "--threads=1", "--adam-threads=1"});
  append(words, flags);
  // So a run of fewer steps is the beginning of a longer one.
  for (const std::string flag : {"--schedule=constant", "--eval-fraction=0"})
    if (!names(flags, flag.substr(0, flag.find('=')))) words.push_back(flag);
  return words;
}

Words Scenario::verb(const std::string& name, const Words& flags) const {
  Words words = {ZERO_LAUNCH, name};
  append(words, flags);
  return words;
}

std::unique_ptr<Program> Scenario::start(int ranks, const Words& words,
                                         const Words& variables) {
  Words all = ranks == 0 ? Words{} : mpirun_words(ranks);
  append(all, words);
  Words environment = mpi_variables();
  append(environment, variables);
  return std::make_unique<Program>(all, environment,
                                   path("log" + std::to_string(num_programs_++)));
}

Outcome Scenario::run(int ranks, const Words& words, const Words& variables) {
  const Outcome outcome = start(ranks, words, variables)->wait();
  EXPECT_FALSE(outcome.is_late) << outcome.out << outcome.err;
  return outcome;
}

bool Scenario::wait_for_step(const std::string& out, int64_t step) const {
  return wait_until([&] {
    const std::vector<int64_t> done = steps(out);
    return !done.empty() && done.back() >= step;
  });
}

std::vector<json> Scenario::metrics(const std::string& out,
                                    const std::string& type) const {
  std::vector<json> records;
  std::istringstream text(read_file(path(out) + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line) && !text.eof();) {
    const json record = json::parse(line);
    if (record["type"] == type) records.push_back(record);
  }
  return records;
}

std::vector<int64_t> Scenario::steps(const std::string& out) const {
  std::vector<int64_t> numbers;
  for (const json& record : metrics(out, "step")) numbers.push_back(record["step"]);
  return numbers;
}

Words Scenario::checkpoints(const std::string& out) const {
  Words names;
  for (const auto& entry : fs::directory_iterator(path(out))) {
    const std::string name = entry.path().filename();
    const bool is_set_aside = name.find('.') != name.npos;
    if (name.starts_with("step_") && !is_set_aside) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

bool Scenario::has(const std::string& name) const { return fs::exists(path(name)); }

void expect_same(const State& whole, const State& after) {
  EXPECT_EQ(whole.step, after.step);
  EXPECT_FALSE(whole.values.empty());
  ASSERT_EQ(whole.values.size(), after.values.size());
  for (const auto& [name, values] : whole.values)
    EXPECT_TRUE(values == after.values.at(name)) << name << " differs";
  ASSERT_GE(whole.losses.size(), after.losses.size());
  EXPECT_FALSE(after.losses.empty());
  EXPECT_TRUE(
      std::equal(after.losses.rbegin(), after.losses.rend(), whole.losses.rbegin()))
      << "losses differ";
}

}  // namespace zero::scenarios

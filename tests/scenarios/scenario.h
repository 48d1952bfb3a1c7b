#pragma once
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/scenarios/program.h"

namespace zero::scenarios {

using Words = std::vector<std::string>;

// What --dump-state has written, put together over the ranks.
struct State {
  std::map<std::string, std::vector<uint32_t>> values;  // "master wte.weight" -> bits
  Words losses;                                         // %a
  int64_t step = 0;
};
State read_state(const std::string& folder);

// Of what a run left; throws where it left nothing, which fails the test alone.
template <typename T>
T last_of(const std::vector<T>& values) {
  return values.empty() ? throw std::runtime_error("the run left none") : values.back();
}

// The real program on a tiny model and its own data, in a folder that goes away.
class Scenario : public ::testing::Test {
 protected:
  Scenario();
  ~Scenario() override;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;

  // zero_launch train with small settings, --out NAME, and these flags.
  Words train(const std::string& out, const Words& flags) const;
  Words verb(const std::string& name, const Words& flags) const;

  // By itself (0 ranks), or under mpirun.
  Outcome run(int ranks, const Words& words, const Words& variables = {});
  std::unique_ptr<Program> start(int ranks, const Words& words,
                                 const Words& variables = {});
  // Until the run has done so many steps.
  bool wait_for_step(const std::string& out, int64_t step) const;

  std::vector<nlohmann::json> metrics(const std::string& out,
                                      const std::string& type) const;
  std::vector<int64_t> steps(const std::string& out) const;  // as metrics.jsonl has them
  Words checkpoints(const std::string& out) const;           // "step_000000000004", ...
  bool has(const std::string& name) const;

 private:
  std::string folder_;
  int num_programs_ = 0;
};

// That masters and moments are the same bits, and the losses of `after` are the last ones
// of `whole`.
void expect_same(const State& whole, const State& after);

}  // namespace zero::scenarios

#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/properties/case.h"
#include "tests/properties/schedule.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero::properties {

// The engine did not do what was expected.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A number that somebody sees during a run.
struct Seen {
  int event = 0;  // index in Case::events
  std::string what;
  at::Tensor value;
};
using Log = std::vector<Seen>;

// Run `body` on every rank and return when all are done.
using Body = std::function<void(std::unique_ptr<Ranks>)>;
using Start = std::function<void(int ranks, const Body& body)>;

// What each rank of this process sees when the engine trains the case; other ranks' logs
// stay empty. Throws what a rank threw.
std::vector<Log> run_engine(const Case& of, const Start& start);
// The same of as many copies of the module without an engine, whose gradients are added
// up by hand.
std::vector<Log> run_plain(const Case& of);

// Throw Mismatch at the first difference; `is_exact`: of a bit.
void compare(const Case& of, const Log& log, const Log& expected, bool is_exact);

// --- what both runs must agree on
Options options_of(const Case& of);
std::pair<at::Tensor, at::Tensor> data_of(const Case& of, const Step& step, int rank);
int64_t num_targets_of(const Step& step, int rank);
// All but the head, without which a loss may need no gradient.
bool may_freeze(const std::string& fqn, bool is_trained);
// What it becomes where it is frozen and not fp32 throughout.
at::Tensor kept_value(const at::Tensor& value, DType frozen_dtype);
at::Tensor new_value(const Step& step, at::IntArrayRef shape);
constexpr double kLearningRate = 0.05;

}  // namespace zero::properties

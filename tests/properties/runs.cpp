#include "tests/properties/runs.h"

#include <span>
#include <sstream>

#include "offload/random.h"
#include "offload/stored_values.h"
#include "tests/properties/net.h"

namespace zero::properties {
namespace {

// Names of parameters end with one of these.
const char* const kPatterns[] = {"*w", "*b", "*weight"};

bool fits_any(const Case& of, const std::string& pattern) {
  for (const auto& item : RootImpl(of).named_parameters()) {
    if (item.key().ends_with(pattern.substr(1))) return true;
  }
  return false;
}

std::vector<ParamGroup> groups_of(const Case& of) {
  std::vector<ParamGroup> groups;
  const int frozen = of.setting("frozen_group"), scaled = of.setting("scaled_group");
  if (frozen > 0 && fits_any(of, kPatterns[frozen - 1]))
    groups.push_back({kPatterns[frozen - 1], 1, {}, /*frozen=*/true});
  if (scaled > 0 && scaled != frozen && fits_any(of, kPatterns[scaled - 1]))
    groups.push_back({kPatterns[scaled - 1], 0.5, 0.2});
  return groups;
}

std::string difference(const at::Tensor& value, const at::Tensor& expected, bool is_exact,
                       double tolerance) {
  if (value.sizes() != expected.sizes()) return "the shape";
  if (torch::equal(value, expected)) return "";
  const at::Tensor a = value.to(at::kDouble), b = expected.to(at::kDouble);
  const double error = (a - b).abs().max().item<double>();
  const double allowed = tolerance * (0.1 + b.abs().max().item<double>());
  if (!is_exact && error <= allowed) return "";  // a NaN is never allowed
  std::ostringstream text;
  text.precision(9);
  text << "off by " << error << "\nfound\n" << value << "\nexpected\n" << expected;
  return text.str();
}

// Where a GPU's shards lie: 0 is the usual place.
void set_home(Options& options, int home) {
  const bool is_odd = options.seed % 2 == 1;
  constexpr Offload kOffloads[] = {Offload::kAll, Offload::kOptimizer, Offload::kNone,
                                   Offload::kAll, Offload::kOptimizer};
  options.offload = kOffloads[home];
  options.device_state_fraction = home >= 3 ? 0.5 : 0;
  options.grad_sums = is_odd ? GradSums::kDevice : GradSums::kHost;
}

}  // namespace

Options options_of(const Case& of) {
  Options options;
  options.seed = of.seed;
  options.adam_threads = 1;
  options.device = of.setting("gpu") ? DeviceChoice::kCuda : DeviceChoice::kCpu;
  options.schedule.lr = kLearningRate;
  options.optimizer.eps = 1e-2;  // else rounding errors of small gradients would grow
  options.optimizer.weight_decay = of.setting("weight_decay") ? 0.3 : 0;
  if (of.setting("decay_all")) options.weight_decay_on = WeightDecayOn::kAll;
  options.clip = of.setting("clip") ? 0.5 : 0;
  if (of.setting("fp16")) {
    options.dtype = DType::kFp16;
    options.loss_scale.init = of.setting("fp16");
  }
  options.groups = groups_of(of);
  constexpr DType kKept[] = {DType::kFp32, DType::kBf16, DType::kFp16, DType::kInt8};
  options.frozen_dtype = kKept[of.setting("kept")];
  options.nominal_targets = of.setting("nominal_targets");
  options.deterministic = of.setting("deterministic");
  options.micro_batches_per_rank = of.setting("micro_batches_per_rank");
  options.average_buffers_each_step = of.setting("average_each_step");
  options.shard_ranks = of.setting("group");
  options.prefetch = of.setting("prefetch");
  options.reshard_after_forward = of.setting("reshard");
  options.recompute.every = of.setting("recompute");
  // Of a GPU, however small; on the host there is nothing to bring away.
  options.offload_activations =
      of.setting("gpu") && of.setting("offload") && of.setting("recompute");
  options.offload_min_bytes = 1;
  if (of.setting("gpu")) set_home(options, of.setting("home"));
  if (of.setting("micro_batch") > 0) {
    options.accumulate = Accumulate::kUnit;
    options.micro_batch = of.setting("micro_batch");
  }
  options.auto_wrap.min_numel = of.setting("min_numel");
  constexpr int64_t kRoom[] = {0, 2000, 1 << 20};  // none, for some units, for all
  options.speculate_bytes = kRoom[of.setting("speculate")];
  options.chaos_seed = of.setting("chaos") ? of.seed + 1 : 0;
  options.stream_always = of.setting("stream_always");
  return options;
}

std::pair<at::Tensor, at::Tensor> data_of(const Case& of, const Step& step, int rank) {
  const uint64_t key = hash_key(hash_key(of.seed, step.pick), rank);
  return {numbers({kRows, kWidth}, hash_key(key, "x")),
          numbers({kRows, kWidth}, hash_key(key, "c"))};
}

// A step needs one at least, on whichever rank.
int64_t num_targets_of(const Step& step, int rank) {
  return static_cast<int64_t>(hash_key(step.pick, rank) % 4) + (rank == 0);
}

bool may_freeze(const std::string& fqn, bool is_trained) {
  return is_trained && fqn != "head";
}

at::Tensor new_value(const Step& step, at::IntArrayRef shape) {
  return numbers(shape, hash_key(step.pick, "value")) * 0.4 + (shape.size() == 1 ? 1 : 0);
}

at::Tensor kept_value(const at::Tensor& value, DType frozen_dtype) {
  const at::Tensor kept = value.detach().to(at::kFloat).contiguous().clone();
  const std::span<float> values(kept.data_ptr<float>(), kept.numel());
  if (frozen_dtype == DType::kInt8) {
    std::vector<Int8Block> blocks(kept.numel() / Int8Block::kNumel + 1);
    const StoredValues stored = StoredValues::in_int8(blocks.data(), kept.numel());
    stored.write(0, values);
    stored.read(0, values);
    return kept;
  }
  for (float& each : values) {
    char bytes[4];
    narrow(&each, 1, frozen_dtype, bytes);
    widen(frozen_dtype, bytes, 1, &each);
  }
  return kept;
}

void compare(const Case& of, const Log& log, const Log& expected, bool is_exact) {
  const auto fail = [&](const Seen& seen, const std::string& what) {
    throw Mismatch("at event " + std::to_string(seen.event) + " of " +
                   std::to_string(of.events.size()) + ": " + seen.what + " is " + what +
                   (is_exact ? "\n(the same case with other options of speed)" : ""));
  };
  // In fp16 a master that differs in its last bit may be another weight.
  const double tolerance = of.setting("fp16") ? 3e-2 : 2e-4;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i == log.size() || log[i].what != expected[i].what ||
        log[i].event != expected[i].event)
      fail(expected[i], "missing");
    const std::string what =
        difference(log[i].value, expected[i].value, is_exact, tolerance);
    if (!what.empty()) fail(expected[i], what);
  }
  if (log.size() > expected.size()) fail(log[expected.size()], "not expected");
}

}  // namespace zero::properties

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zero::properties {

// What a node of a model computes, from (rows, width) to (rows, width).
enum class Kind {
  // leaves
  kLinear,
  kScale,
  kLayerNorm,
  kBatchNorm,
  kTurn,     // its buffer turns a little with each forward, and takes part
  kView,     // a view of its parameter, whatever the input
  kInPlace,  // changes its input
  kDropout,
  kPass,   // its input, as it is; its parameter is never used
  kAgain,  // a module that stands elsewhere, too
  // with children, one after the other
  kSequence,
  kResidual,
  kDetach,   // what the children make needs no gradient
  kQuiet,    // they run without gradients
  kRepeat,   // all of them twice
  kReverse,  // from the last to the first if the model is called with `flip`
  kSkip,     // not at all then
};
bool has_children(Kind kind);

struct Node {
  Kind kind = Kind::kSequence;
  bool is_unit = false;
  bool is_frozen = false;  // its own parameters
  // 0, or the number of an earlier parameter (kAgain: module) that it takes for its own.
  int same_as = 0;
  bool has_scale = false;  // with children: a parameter of its own after them
  std::vector<Node> children = {};
};

enum class Do {
  kForward,
  kBackward,
  kBackwardOfTwo,  // of the sum of two losses
  kDrop,           // let go of a loss without a backward
  kNoGrad,         // a forward that keeps nothing
  kTrain,
  kEval,
  kForeign,  // another backward than the engine's
  kThrowInForward,
  kThrowInBackward,  // when a unit is recomputed; then the step's gradients are discarded
  kDiscard,
  kStep,
  kLook,  // full_gradient of all parameters
  kSet,
  kAverage,
  kSave,
  kLoad,        // the last one saved, after letting go of all losses and gradients
  kUseOld,      // a backward that belongs to an older step
  kFreeze,      // one parameter, or thaw it
  kCallDirect,  // the model's own forward instead of the engine's
};

struct Event {
  Do what = Do::kForward;
  int pick = 0;  // data, or which of the open losses, parameters ...
  bool flip = false;
};

// One model, one schedule and the options that are not the usual ones.
struct Case {
  uint64_t seed = 0;
  int ranks = 1;
  bool may_draw = false;
  Node model;
  std::vector<Event> events;
  std::map<std::string, int> settings;

  int setting(const std::string& name) const;
};

// The usual value of each setting. "fp16": the loss scale, 0 where units are fp32.
const std::map<std::string, int>& usual_settings();

// The case of a seed. `ranks` 0: 1 to 4 threads; else so many, and `may_draw` says
// whether each has a random generator of its own.
Case make_case(uint64_t seed, int ranks, bool may_draw);

// Are there several? One of all ranks is as none.
bool has_groups(const Case& of);

// Shard over so many of the ranks, 0: all; without what does not go with it.
void set_group(Case& of, int group);

// Else it does not sum as the tree over micro-batches asks for.
bool may_be_deterministic(const Case& of);

std::string to_string(const Case& value);
int count(const Node& node, Kind kind);  // in the whole tree

}  // namespace zero::properties

#include "tests/properties/case.h"

#include <array>
#include <bit>

namespace zero::properties {
namespace {

// splitmix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  int below(int end) { return static_cast<int>(next() % static_cast<uint64_t>(end)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

constexpr std::array kLeaves{Kind::kLinear,    Kind::kLinear,    Kind::kScale,
                             Kind::kLayerNorm, Kind::kBatchNorm, Kind::kTurn,
                             Kind::kView,      Kind::kInPlace,   Kind::kDropout,
                             Kind::kPass,      Kind::kAgain,     Kind::kAgain};
constexpr std::array kContainers{Kind::kSequence, Kind::kSequence, Kind::kResidual,
                                 Kind::kResidual, Kind::kDetach,   Kind::kQuiet,
                                 Kind::kRepeat,   Kind::kReverse,  Kind::kSkip};

// Kinds that do not work row by row.
bool mixes_rows(Kind kind) {
  return kind == Kind::kBatchNorm || kind == Kind::kTurn || kind == Kind::kInPlace ||
         kind == Kind::kDropout;
}

class ModelMaker {
 public:
  ModelMaker(Random& random, const Case& of) : random_(random), case_(of) {}

  Node make_root() {
    Node root = make_container(Kind::kSequence, 0);
    root.has_scale = random_.chance(50);
    return root;
  }

 private:
  Node make_node(int depth) {
    --budget_;
    const bool has_inner = depth < 3 && budget_ > 0 && random_.chance(40);
    Node node =
        has_inner ? make_container(kContainers[random_.below(kContainers.size())], depth)
                  : make_leaf();
    node.is_unit = random_.chance(60);
    node.is_frozen = random_.chance(12);
    return node;
  }

  Node make_container(Kind kind, int depth) {
    Node node{.kind = kind, .has_scale = random_.chance(25)};
    const int num_children = 1 + random_.below(3);
    for (int i = 0; i < num_children && budget_ > 0; ++i) {
      node.children.push_back(make_node(depth + 1));
      // The same module under two names of one unit.
      if (node.children.back().kind == Kind::kAgain && random_.chance(50))
        node.children.push_back(Node(node.children.back()));
    }
    return node;
  }

  Node make_leaf() {
    Node node{.kind = kLeaves[random_.below(kLeaves.size())]};
    if (node.kind == Kind::kDropout && !case_.may_draw) node.kind = Kind::kScale;
    if (mixes_rows(node.kind) && case_.setting("micro_batch") > 0)
      node.kind = Kind::kLinear;
    if (node.kind == Kind::kAgain || random_.chance(15))
      node.same_as = 1 + random_.below(8);
    return node;
  }

  Random& random_;
  const Case& case_;
  int budget_ = 9;
};

std::map<std::string, int> make_settings(Random& random) {
  std::map<std::string, int> settings;
  const auto set = [&](const std::string& name, int percent, int value) {
    if (random.chance(percent)) settings[name] = value;
  };
  set("prefetch", 60, 2 * random.below(2));
  set("reshard", 30, 0);
  constexpr std::array kRecomputed{0, 0, 2, 3};  // none, every second, every third
  set("recompute", 60, kRecomputed[random.below(kRecomputed.size())]);
  set("offload", 50, 1);
  set("home", 60, 1 + random.below(4));
  set("stream_always", 50, 1);
  set("min_numel", 30, 4 + random.below(12));
  set("chaos", 30, 1);
  set("deterministic", 25, 1);
  set("micro_batches_per_rank", 70, 1 + random.below(3));
  set("clip", 40, 1);
  set("weight_decay", 50, 1);
  set("decay_all", 50, 1);
  set("micro_batch", 12, 1 + random.below(2));
  set("nominal_targets", 50, 4);
  set("average_each_step", 15, 1);
  set("frozen_group", 20, 1 + random.below(3));
  set("scaled_group", 20, 1 + random.below(3));
  set("x_needs_grad", 20, 0);
  if (!settings.contains("x_needs_grad")) set("head", 40, 0);
  set("other_speed", 25, 1);
  set("speculate", 50, 1 + random.below(2));
  set("kept", 30, 1 + random.below(3));
  return settings;
}

Event make_event(Random& random) {
  struct Weighted {
    Do what;
    int weight;
  };
  constexpr std::array table{
      Weighted{Do::kForward, 24},       Weighted{Do::kBackward, 22},
      Weighted{Do::kBackwardOfTwo, 3},  Weighted{Do::kDrop, 3},
      Weighted{Do::kNoGrad, 6},         Weighted{Do::kTrain, 2},
      Weighted{Do::kEval, 3},           Weighted{Do::kForeign, 6},
      Weighted{Do::kThrowInForward, 4}, Weighted{Do::kThrowInBackward, 4},
      Weighted{Do::kDiscard, 2},        Weighted{Do::kStep, 12},
      Weighted{Do::kLook, 5},           Weighted{Do::kSet, 4},
      Weighted{Do::kAverage, 3},        Weighted{Do::kSave, 2},
      Weighted{Do::kLoad, 2},           Weighted{Do::kUseOld, 2},
      Weighted{Do::kFreeze, 2},         Weighted{Do::kCallDirect, 2}};
  int total = 0;
  for (const Weighted& entry : table) total += entry.weight;
  int at = random.below(total);
  Event event;
  for (const Weighted& entry : table) {
    event.what = entry.what;
    if ((at -= entry.weight) < 0) break;
  }
  event.pick = random.below(1000);
  event.flip = random.chance(40);
  return event;
}

// Random events seldom make a whole step: some are followed by one.
std::vector<Event> make_events(Random& random, const Case& of) {
  std::vector<Event> events;
  const int num_rounds = 1 + random.below(4);
  for (int round = 0; round < num_rounds; ++round) {
    const int num_events = random.below(10);
    for (int i = 0; i < num_events; ++i) events.push_back(make_event(random));
    if (random.chance(30)) events.push_back({Do::kDiscard});
    if (random.chance(30))
      events.push_back({Do::kFreeze, random.below(1000), random.chance(70)});
    const int planned = of.setting("micro_batches_per_rank");
    int passes = of.setting("deterministic") ? planned : 1 + random.below(2);
    if (has_groups(of)) passes = std::min(passes, planned);
    for (int pass = 0; pass < passes; ++pass) {
      events.push_back({Do::kForward, random.below(1000), random.chance(40)});
      events.push_back({Do::kBackward, random.below(1000)});
    }
    events.push_back({Do::kStep});
  }
  return events;
}

const std::array kKindNames{"linear",   "scale",    "layer_norm", "batch_norm", "turn",
                            "view",     "in_place", "dropout",    "pass",       "again",
                            "sequence", "residual", "detach",     "quiet",      "repeat",
                            "reverse",  "skip"};
const std::array kDoNames{"forward",
                          "backward",
                          "backward_of_two",
                          "drop",
                          "no_grad",
                          "train",
                          "eval",
                          "foreign_backward",
                          "throw_in_forward",
                          "throw_in_backward",
                          "discard",
                          "step",
                          "look",
                          "set",
                          "average_buffers",
                          "save",
                          "load",
                          "use_old",
                          "freeze",
                          "call_direct"};

std::string to_string(const Node& node, int depth) {
  std::string text(2 * depth + 2, ' ');
  if (node.is_unit) text += "unit ";
  if (node.is_frozen) text += "frozen ";
  text += kKindNames[static_cast<size_t>(node.kind)];
  if (node.same_as > 0) text += " same_as=" + std::to_string(node.same_as);
  if (node.has_scale) text += " with_scale";
  text += "\n";
  for (const Node& child : node.children) text += to_string(child, depth + 1);
  return text;
}

std::vector<int> divisors_of(int number) {
  std::vector<int> all;
  for (int each = 1; each <= number; ++each)
    if (number % each == 0) all.push_back(each);
  return all;
}

}  // namespace

bool has_children(Kind kind) { return kind >= Kind::kSequence; }

const std::map<std::string, int>& usual_settings() {
  static const std::map<std::string, int> settings{{"prefetch", 1},
                                                   {"reshard", 1},
                                                   {"recompute", 1},
                                                   {"stream_always", 0},
                                                   {"min_numel", 0},
                                                   {"chaos", 0},
                                                   {"deterministic", 0},
                                                   {"micro_batches_per_rank", 1},
                                                   {"clip", 0},
                                                   {"weight_decay", 0},
                                                   {"decay_all", 0},
                                                   {"micro_batch", 0},
                                                   {"nominal_targets", 1},
                                                   {"average_each_step", 0},
                                                   {"frozen_group", 0},
                                                   {"scaled_group", 0},
                                                   {"x_needs_grad", 1},
                                                   {"head", 1},
                                                   {"gpu", 0},
                                                   {"offload", 0},
                                                   {"home", 0},
                                                   {"fp16", 0},
                                                   {"speculate", 0},
                                                   {"kept", 0},
                                                   {"group", 0},
                                                   {"other_speed", 0}};
  return settings;
}

int Case::setting(const std::string& name) const {
  const auto own = settings.find(name);
  return own == settings.end() ? usual_settings().at(name) : own->second;
}

bool has_groups(const Case& of) {
  return of.setting("group") > 0 && of.setting("group") < of.ranks;
}

void set_group(Case& of, int group) {
  of.settings.erase("group");
  if (group > 0) of.settings["group"] = group;
  if (has_groups(of)) of.settings["speculate"] = 0;
  if (!may_be_deterministic(of)) of.settings.erase("deterministic");
}

Case make_case(uint64_t seed, int ranks, bool may_draw) {
  Random random(seed);
  Case result;
  result.seed = seed;
  result.ranks = 1 + random.below(4);
  if (ranks > 0) result.ranks = ranks;
  result.may_draw = may_draw || result.ranks == 1;
  result.settings = make_settings(random);
  // Of their own, so that the other numbers of a seed stay what they are.
  Random of_groups(seed + 0x6f);
  const std::vector<int> groups = divisors_of(result.ranks);
  const int group = groups[of_groups.below(static_cast<int>(groups.size()))];
  set_group(result, of_groups.chance(40) ? group : 0);
  Random of_type(seed + 0x16);
  if (of_type.chance(20)) result.settings["fp16"] = 1 << of_type.below(10);
  result.model = ModelMaker(random, result).make_root();
  result.events = make_events(random, result);
  return result;
}

bool may_be_deterministic(const Case& of) {
  const int passes = has_groups(of) ? of.setting("micro_batches_per_rank") : 1;
  return std::has_single_bit(static_cast<unsigned>(of.ranks)) &&
         std::has_single_bit(static_cast<unsigned>(passes)) &&
         of.setting("micro_batch") == 0;
}

int count(const Node& node, Kind kind) {
  int number = node.kind == kind;
  for (const Node& child : node.children) number += count(child, kind);
  return number;
}

std::string to_string(const Case& value) {
  std::string text = "seed " + std::to_string(value.seed) + " on " +
                     std::to_string(value.ranks) + " rank(s)";
  for (const auto& [name, setting] : value.settings)
    text += " " + name + "=" + std::to_string(setting);
  text += "\nmodel\n" + to_string(value.model, 0) + "events\n";
  for (const Event& event : value.events) {
    text += std::string("  ") + kDoNames[static_cast<size_t>(event.what)] + " " +
            std::to_string(event.pick) + (event.flip ? " flip" : "") + "\n";
  }
  return text;
}

}  // namespace zero::properties

#include "launcher/look/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <stdexcept>
#include <utility>

#include "checkpoint/buffer.h"
#include "engine/watch/activity.h"
#include "launcher/bench/rounds.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/settings/chosen_model.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::StoredTensor;
using checkpoint::TensorFolder;

constexpr std::pair<Verdict, const char*> kVerdicts[] = {
    {Verdict::kEqual, "equal"},          {Verdict::kDiffers, "differs"},
    {Verdict::kOtherType, "other type"}, {Verdict::kOtherShape, "other shape"},
    {Verdict::kOnlyInA, "only in A"},    {Verdict::kOnlyInB, "only in B"}};

// Of one name, what each folder has; null: nothing.
struct Pair {
  const StoredTensor *a = nullptr, *b = nullptr;
};

// Before all names but the head's, in a model's FQNs; older folders of Hugging Face leave
// it out. Empty: nothing, or not known.
std::string prefix_of(const TensorFolder& folder, const ModelFamilies& models) {
  if (folder.is_checkpoint()) return "";
  try {
    const ModelFolder model = read_model_folder(folder.path(), models, "DIR");
    return find_class(*find_family(models, model.family), model.config)->prefix;
  } catch (const std::runtime_error&) {  // Error or CheckpointError
    return "";
  }
}

struct Side {
  const Manifest& manifest;
  std::string prefix;

  const StoredTensor* find(Kind kind, const std::string& fqn) const {
    const StoredTensor* found = manifest.find(kind, fqn);
    const bool may_be_bare = !found && !prefix.empty() && fqn.starts_with(prefix);
    return may_be_bare ? manifest.find(kind, fqn.substr(prefix.size())) : found;
  }
};

using Pairs = std::map<std::pair<Kind, std::string>, Pair>;

// By the names under which they are stored, with the prefix where the other folder has
// it. What the other has under an alias of its own is found by that.
Pairs pairs_of(const Side& a, const Side& b, const Selection& selection) {
  Pairs pairs;
  for (const auto& [side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const StoredTensor* tensor : selected_tensors(side->manifest, selection)) {
      const Kind kind = tensor->kind;
      const std::string full = side->prefix + tensor->fqn;
      const bool is_bare = !other->find(kind, tensor->fqn) && other->find(kind, full);
      const std::string& fqn = is_bare ? full : tensor->fqn;
      pairs[{kind, fqn}] = {a.find(kind, fqn), b.find(kind, fqn)};
    }
  }
  return pairs;
}

// Pieces of both folders are read at once, each into a room of its own.
Distance distance_of(TensorFolder& a, TensorFolder& b, const Pair& pair,
                     const checkpoint::Buffer& room_a, const checkpoint::Buffer& room_b) {
  constexpr int64_t kWorthAThread = int64_t{1} << 18;
  const DType type_a = pair.a->dtype, type_b = pair.b->dtype;
  Distance distance;
  for_each_piece(
      pair.a->numel(), std::max(size_of(type_a), size_of(type_b)),
      [&](int64_t begin, int64_t n) {
        const auto how = n < kWorthAThread ? std::launch::deferred : std::launch::async;
        auto other = std::async(how, [&] { b.read(*pair.b, begin, n, room_b.data()); });
        a.read(*pair.a, begin, n, room_a.data());
        other.get();
        distance.add(type_a, room_a.data(), type_b, room_b.data(), n);
      });
  return distance;
}

std::string describe(const StoredTensor* tensor) {
  if (tensor == nullptr) return "";
  return fmt::format("{} {}", name_of(tensor->dtype),
                     checkpoint::to_string(tensor->shape));
}

Verdict judge(const Pair& pair) {
  if (pair.b == nullptr) return Verdict::kOnlyInA;
  if (pair.a == nullptr) return Verdict::kOnlyInB;
  if (pair.a->shape != pair.b->shape) return Verdict::kOtherShape;
  return pair.a->dtype != pair.b->dtype ? Verdict::kOtherType : Verdict::kEqual;
}

// Whose values are read.
bool is_compared(Verdict verdict) { return verdict <= Verdict::kOtherType; }

int64_t bytes_to_read(const Pairs& pairs) {
  int64_t bytes = 0;
  for (const auto& [name, pair] : pairs)
    if (is_compared(judge(pair))) bytes += pair.a->num_bytes() + pair.b->num_bytes();
  return bytes;
}

Row row_of(const TensorDiff& tensor) {
  Row row = {{"fqn", tensor.fqn},
             {"kind", name_of(tensor.kind)},
             {"verdict", name_of(tensor.verdict)}};
  if (tensor.a != tensor.b) {
    row["a"] = tensor.a;
    row["b"] = tensor.b;
  }
  if (!tensor.distance || tensor.verdict == Verdict::kEqual) return row;
  const Distance& distance = *tensor.distance;
  row["largest"] = distance.largest;
  row["relative"] = distance.relative();
  row["relative_norm"] = distance.relative_norm();
  row["different"] = distance.num_different;
  row["not_finite"] = distance.num_not_finite;
  row["of"] = distance.num_values;
  return row;
}

std::vector<Row> rows_of(const FolderDiff& diff) {
  std::vector<Row> rows;
  for (const TensorDiff& tensor : diff.tensors) rows.push_back(row_of(tensor));
  return rows;
}

std::string summary(const FolderDiff& diff) {
  std::string text = fmt::format("{} tensor(s): {} equal", diff.tensors.size(),
                                 diff.num(Verdict::kEqual));
  for (const auto& [verdict, name] : kVerdicts) {
    const int64_t num = diff.num(verdict);
    if (num > 0 && verdict != Verdict::kEqual) text += fmt::format(", {} {}", num, name);
  }
  return text;
}

}  // namespace

const char* name_of(Verdict verdict) {
  return std::ranges::find(kVerdicts, verdict, [](const auto& v) { return v.first; })
      ->second;
}

int64_t FolderDiff::num(Verdict verdict) const {
  return std::ranges::count(tensors, verdict, &TensorDiff::verdict);
}

FolderDiff diff_folders(const std::string& dir_a, const std::string& dir_b,
                        const Selection& selection, const ModelFamilies& models) {
  FolderDiff result;
  const auto open = [&](const std::string& dir, const char* name) {
    const FoundFolder found = find_folder(dir, name);
    result.passed_over.insert(result.passed_over.end(), found.passed_over.begin(),
                              found.passed_over.end());
    return found.path;
  };
  TensorFolder a(result.path_a = open(dir_a, "A")), b(result.path_b = open(dir_b, "B"));
  require_matches({&a.manifest(), &b.manifest()}, selection);
  const Pairs pairs = pairs_of({a.manifest(), prefix_of(a, models)},
                               {b.manifest(), prefix_of(b, models)}, selection);
  Activity::Stretch stretch("diff");
  stretch.expect(bytes_to_read(pairs));
  const checkpoint::Buffer room_a(kPieceBytes), room_b(kPieceBytes);
  for (const auto& [name, pair] : pairs) {
    TensorDiff tensor{name.first,       name.second,      judge(pair),
                      describe(pair.a), describe(pair.b), {}};
    if (is_compared(tensor.verdict)) {
      tensor.distance = distance_of(a, b, pair, room_a, room_b);
      if (tensor.verdict == Verdict::kEqual && tensor.distance->num_different > 0)
        tensor.verdict = Verdict::kDiffers;
    }
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

std::string to_page(const FolderDiff& diff) {
  std::string header =
      "zero_launch diff\n" + labelled("A", diff.path_a) + labelled("B", diff.path_b);
  for (const std::string& newer : diff.passed_over)
    header += labelled("", "newer, but damaged: " + newer);
  return printable(header + "\n" + to_table(rows_of(diff)) + "\n" + summary(diff) + "\n");
}

std::string to_line(const FolderDiff& diff) {
  Row numbers = Row::object();
  for (const auto& [verdict, name] : kVerdicts) {
    std::string key = name;
    std::ranges::replace(key, ' ', '_');
    numbers[key] = diff.num(verdict);
  }
  const Row object = {{"a", diff.path_a},
                      {"b", diff.path_b},
                      {"passed_over", diff.passed_over},
                      {"are_equal", diff.are_equal()},
                      {"numbers", numbers},
                      {"tensors", rows_of(diff)}};
  return json_text(object) + "\n";
}

}  // namespace zero::launcher

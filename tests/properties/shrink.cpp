#include "tests/properties/shrink.h"

namespace zero::properties {
namespace {

// Every tree that has one thing less than `node`.
std::vector<Node> smaller(const Node& node, bool is_root) {
  std::vector<Node> result;
  if (!is_root) {
    for (const Node& child : node.children) result.push_back(child);
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    result.push_back(node);
    result.back().children.erase(result.back().children.begin() +
                                 static_cast<std::ptrdiff_t>(i));
  }
  const auto change = [&](auto&& apply) {
    Node other = node;
    apply(other);
    result.push_back(std::move(other));
  };
  if (node.has_scale) change([](Node& other) { other.has_scale = false; });
  if (node.is_frozen) change([](Node& other) { other.is_frozen = false; });
  if (node.is_unit) change([](Node& other) { other.is_unit = false; });
  if (node.same_as > 1) change([](Node& other) { other.same_as = 1; });
  if (node.same_as > 0 && node.kind != Kind::kAgain)
    change([](Node& other) { other.same_as = 0; });
  if (has_children(node.kind) && node.kind != Kind::kSequence)
    change([](Node& other) { other.kind = Kind::kSequence; });
  if (!has_children(node.kind) && node.kind != Kind::kScale)
    change([](Node& other) { other.kind = Kind::kScale; });
  for (size_t i = 0; i < node.children.size(); ++i) {
    for (Node& child : smaller(node.children[i], false))
      change([&](Node& other) { other.children[i] = std::move(child); });
  }
  return result;
}

std::vector<Case> smaller(const Case& value) {
  std::vector<Case> result;
  const auto change = [&](auto&& apply) {
    Case other = value;
    apply(other);
    result.push_back(std::move(other));
  };
  const auto erase_events = [&](size_t from, size_t number) {
    change([&](Case& other) {
      const auto first = other.events.begin() + static_cast<std::ptrdiff_t>(from);
      other.events.erase(first, first + static_cast<std::ptrdiff_t>(number));
    });
  };
  const size_t size = value.events.size();
  for (size_t number = size / 2; number > 1; number /= 2) {
    for (size_t from = 0; from + number <= size; from += number)
      erase_events(from, number);
  }
  for (int ranks = 1; ranks < value.ranks; ++ranks) {
    change([&](Case& other) {
      other.ranks = ranks;
      if (ranks % std::max(1, other.setting("group")) != 0) other.settings.erase("group");
      if (!may_be_deterministic(other)) other.settings.erase("deterministic");
    });
  }
  for (Node& model : smaller(value.model, true))
    change([&](Case& other) { other.model = std::move(model); });
  for (const auto& [name, setting] : value.settings)
    change([&](Case& other) { other.settings.erase(name); });
  for (size_t i = size; i-- > 0;) erase_events(i, 1);
  for (size_t i = 0; i < size; ++i) {
    if (value.events[i].what == Do::kBackwardOfTwo)
      change([&](Case& other) { other.events[i].what = Do::kBackward; });
    for (size_t j = i + 1; j < size; ++j) {
      change([&](Case& other) {
        other.events.erase(other.events.begin() + static_cast<std::ptrdiff_t>(j));
        other.events.erase(other.events.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
  }
  for (size_t i = 0; i < size; ++i) {
    if (value.events[i].flip) change([&](Case& other) { other.events[i].flip = false; });
    if (value.events[i].pick > 0) change([&](Case& other) { other.events[i].pick = 0; });
  }
  return result;
}

}  // namespace

Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int max_tries) {
  bool has_found = true;
  while (has_found) {
    has_found = false;
    for (Case& candidate : smaller(failing)) {
      if (max_tries-- <= 0) return failing;
      if (!fails(candidate)) continue;
      failing = std::move(candidate);
      has_found = true;
      break;
    }
  }
  return failing;
}

}  // namespace zero::properties

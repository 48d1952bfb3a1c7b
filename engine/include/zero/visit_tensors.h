#pragma once
#include <torch/torch.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace zero {

namespace detail {

template <class T, class... Others>
inline constexpr bool is_any_of = (std::is_same_v<T, Others> || ...);

// Values that cannot hold a tensor.
template <class T>
inline constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_enum_v<T> ||
    is_any_of<T, std::string, std::nullopt_t, std::nullptr_t, std::monostate, c10::Scalar,
              c10::Device, at::TensorOptions, at::indexing::Slice>;

template <class T>
concept ShowsTensors = requires(T& value) {
  value.visit_tensors([](auto&) {});
};

// Where the tensors of a T are. Specialised for what the standard library nests them in.
template <class T>
struct TensorsOf {
  static constexpr bool are_known = is_plain<T> || ShowsTensors<T>;
  template <class Visitor>
  static void visit(T& value, Visitor& visitor);
};

template <>
struct TensorsOf<at::Tensor> {
  static constexpr bool are_known = true;
  template <class Visitor>
  static void visit(at::Tensor& value, Visitor& visitor) {
    visitor(value);
  }
};

template <class T>
struct TensorsOf<std::optional<T>> {
  static constexpr bool are_known = TensorsOf<T>::are_known;
  template <class Visitor>
  static void visit(std::optional<T>& value, Visitor& visitor) {
    if (value) TensorsOf<T>::visit(*value, visitor);
  }
};

template <class Range, class T>
struct TensorsOfRange {
  static constexpr bool are_known = TensorsOf<T>::are_known;
  template <class Visitor>
  static void visit(Range& values, Visitor& visitor) {
    if constexpr (!is_plain<T>) {
      for (T& value : values) TensorsOf<T>::visit(value, visitor);
    }
  }
};
template <class T>
struct TensorsOf<std::vector<T>> : TensorsOfRange<std::vector<T>, T> {};
template <class T, size_t N>
struct TensorsOf<std::array<T, N>> : TensorsOfRange<std::array<T, N>, T> {};

template <class Map>
struct TensorsOfMap {
  using T = typename Map::mapped_type;
  static constexpr bool are_known = TensorsOf<T>::are_known;
  template <class Visitor>
  static void visit(Map& map, Visitor& visitor) {
    for (auto& [key, value] : map) TensorsOf<T>::visit(value, visitor);
  }
};
template <class... T>
struct TensorsOf<std::map<T...>> : TensorsOfMap<std::map<T...>> {};
template <class... T>
struct TensorsOf<std::unordered_map<T...>> : TensorsOfMap<std::unordered_map<T...>> {};

template <class Tuple, class... T>
struct TensorsOfTuple {
  static constexpr bool are_known = (TensorsOf<T>::are_known && ...);
  template <class Visitor>
  static void visit(Tuple& parts, Visitor& visitor) {
    std::apply([&](T&... part) { (TensorsOf<T>::visit(part, visitor), ...); }, parts);
  }
};
template <class... T>
struct TensorsOf<std::tuple<T...>> : TensorsOfTuple<std::tuple<T...>, T...> {};
template <class A, class B>
struct TensorsOf<std::pair<A, B>> : TensorsOfTuple<std::pair<A, B>, A, B> {};

}  // namespace detail

// Call `visitor(at::Tensor&)` for every tensor in `value`, undefined ones included, in an
// order that only the value's structure decides.
//
// A value may be a tensor; any nesting of optional, vector, array, map, unordered_map,
// pair and tuple; a number, enum, string or another type that holds no tensor; or a
// struct that shows its tensors by one member function:
//
//   struct Output {
//     at::Tensor logits;
//     std::optional<at::Tensor> cache;
//     void visit_tensors(auto&& visit) { visit(logits); visit(cache); }
//   };
template <class T, class Visitor>
void visit_tensors(T& value, Visitor&& visitor) {
  static_assert(detail::TensorsOf<T>::are_known,
                "zero cannot see the tensors in this type, and would lose their "
                "gradients: use optional, vector, array, map, pair or tuple, or give the "
                "struct a member `void visit_tensors(auto&& visit) { visit(a); ... }`");
  if constexpr (detail::TensorsOf<T>::are_known)
    detail::TensorsOf<T>::visit(value, visitor);
}

template <class T>
template <class Visitor>
void detail::TensorsOf<T>::visit(T& value, Visitor& visitor) {
  if constexpr (!is_plain<T>)
    value.visit_tensors([&](auto& part) { visit_tensors(part, visitor); });
}

}  // namespace zero

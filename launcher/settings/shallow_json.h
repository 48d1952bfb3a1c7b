#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace zero::launcher {

// What `text` says; is_discarded() where it is no JSON, or is nested deeper than anything
// that this program writes: whoever walks through it may recurse.
template <class Json = nlohmann::json>
Json parse_shallow(const std::string& text) {
  constexpr int kDeepest = 64;
  bool is_deep = false;
  Json value = Json::parse(
      text,
      [&](int depth, typename Json::parse_event_t, Json&) {
        is_deep = is_deep || depth > kDeepest;
        return !is_deep;
      },
      /*allow_exceptions=*/false);
  return is_deep ? Json(Json::value_t::discarded) : value;
}

// The text of that key; `otherwise` where there is none.
inline std::string text_in(const nlohmann::json& object, const char* key,
                           const std::string& otherwise = "") {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : otherwise;
}

}  // namespace zero::launcher

#include "checkpoint/json.h"

#include <set>

#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {

// The parser itself accepts repeated keys and any depth.
nlohmann::json parse_strictly(std::string_view text, const std::string& file) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto watch = [&](int, Event event, nlohmann::json& value) {
    if (event == Event::object_start || event == Event::array_start) {
      keys.emplace_back();
      if (keys.size() > kMaxJsonDepth)
        throw CheckpointError(file, "", "is nested too deeply");
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key &&
               !keys.back().insert(value.get<std::string>()).second) {
      const std::string key = printable(value.get_ref<const std::string&>());
      throw CheckpointError(file, "", "has the key \"" + key + "\" twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(file, "", "is not JSON: " + printable(error.what()));
  }
}

Fields::Fields(const nlohmann::json& object, std::string file, std::string place)
    : object_(object), file_(std::move(file)), place_(std::move(place)) {
  if (!object_.is_object()) fail("is not an object");
}

void Fields::fail(const std::string& problem) const {
  throw CheckpointError(file_, "", (place_.empty() ? "it" : place_) + " " + problem);
}

const nlohmann::json& Fields::any(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) fail(text_of("has no \"", key, "\""));
  ++num_taken_;
  return *found;
}

int64_t Fields::integer(const char* key, int64_t min, int64_t max) {
  const auto& value = any(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                    value.get<int64_t>() >= min && value.get<int64_t>() <= max;
  if (!fits)
    fail(text_of("has \"", key, "\" that is no integer from ", min, " to ", max));
  return value.get<int64_t>();
}

const nlohmann::json& Fields::typed(const char* key, Type type, const char* name) {
  const auto& value = any(key);
  if (value.type() != type) fail(text_of("has \"", key, "\" that is no ", name));
  return value;
}

void Fields::done() const {
  if (num_taken_ != object_.size()) fail("has fields that this version does not know");
}

}  // namespace zero::checkpoint

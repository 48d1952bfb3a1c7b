#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// JSON that came from a file, so nothing about it is believed. Only sources include this.
namespace zero::checkpoint {

// Parse, or throw CheckpointError: bad syntax or UTF-8, a number out of range, a repeated
// key, deeper than kMaxJsonDepth. `file` is named in the error.
nlohmann::json parse_strictly(std::string_view text, const std::string& file);

// A value as a text of printable ASCII for an error, cut where it is long.
std::string shown(const nlohmann::json& value);

// An integer of this range; nullopt: anything else.
std::optional<int64_t> integer_in(const nlohmann::json& value, int64_t min,
                                  int64_t max = INT64_MAX);

// More members of an object, or values in one member, are not read by parse_members().
constexpr size_t kMaxJsonMembers = size_t{1} << 18;

// The keys that lead to a value, and the value.
using TakeMember =
    std::function<void(const std::vector<std::string>& path, nlohmann::json value)>;

// Parse as strictly, but hold no more than one member at a time.
//
// `take` is given every value at `depth` (1: the root's members) and every one above that
// is no object; an object above is given, empty, when its members have been. So is a root
// that is no object, with an empty path.
void parse_members(std::string_view text, const std::string& file, size_t depth,
                   const TakeMember& take);

// The fields of one object: each that is asked for must be there with its type, and
// done() refuses any that was not asked for.
class Fields {
 public:
  // `place` says which object, for errors: "tensors[3]".
  Fields(const nlohmann::json& object, std::string file, std::string place);

  int64_t integer(const char* key, int64_t min = 0, int64_t max = INT64_MAX);
  std::string text(const char* key) { return typed(key, Type::string, "text"); }
  bool boolean(const char* key) { return typed(key, Type::boolean, "truth value"); }
  const nlohmann::json& array(const char* key) {
    return typed(key, Type::array, "array");
  }
  const nlohmann::json& object(const char* key) {
    return typed(key, Type::object, "object");
  }
  const nlohmann::json& any(const char* key);

  // An array's objects, each read from its fields.
  template <class Item>
  std::vector<Item> list(const char* key, Item (*read)(Fields&)) {
    const std::string place = place_.empty() ? key : place_ + "." + key;
    std::vector<Item> items;
    for (const auto& object : array(key)) {
      Fields fields(object, file_, place + "[" + std::to_string(items.size()) + "]");
      items.push_back(read(fields));
      fields.done();
    }
    return items;
  }

  void done() const;

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  using Type = nlohmann::json::value_t;
  const nlohmann::json& typed(const char* key, Type type, const char* name);

  const nlohmann::json& object_;
  std::string file_, place_;
  size_t num_taken_ = 0;
};

}  // namespace zero::checkpoint

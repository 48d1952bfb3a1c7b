#include "checkpoint/json.h"

#include <set>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {

namespace {

// The parser itself accepts repeated keys and any depth.
class StrictParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictParser(const std::string& file, size_t depth, size_t max_members,
               const TakeMember& take)
      : file_(file), depth_(depth), max_members_(max_members), take_(take) {}

  void parse(std::string_view text) {
    // The library takes a zero byte for the end.
    if (text.find('\0') != text.npos) fail("is not JSON: it has a zero byte");
    nlohmann::json::sax_parse(text.begin(), text.end(), this);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return open(nlohmann::json::object()); }
  bool start_array(size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second)
      fail("has the key \"" + printable(name) + "\" twice");
    if (level.keys.size() > max_members_)
      fail(text_of("has an object of more than ", max_members_, " members"));
    level.key = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string text = error.what();  // "[json.exception...] parse error at ..."
    fail("is not JSON: " + printable(text.substr(text.find("] ") + 2)));
  }

 private:
  // An object or array that is not at its end.
  struct Level {
    nlohmann::json value;
    bool is_forgetful;  // keeps no member
    std::string key = {};
    std::set<std::string> keys = {};
  };

  bool open(nlohmann::json value) {
    if (levels_.size() == kMaxJsonDepth) fail("is nested too deeply");
    const bool is_forgetful =
        value.is_object() && levels_.size() < depth_ && !is_inside_member();
    levels_.push_back({std::move(value), is_forgetful});
    return true;
  }

  bool close() {
    nlohmann::json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  bool add(nlohmann::json value) {
    if (!is_inside_member()) {
      take(std::move(value));
    } else if (++num_values_ > max_members_) {
      fail(text_of("has a member of more than ", max_members_, " values"));
    } else if (Level& level = levels_.back(); level.value.is_object()) {
      level.value[level.key] = std::move(value);
    } else {
      level.value.push_back(std::move(value));
    }
    return true;
  }

  void take(nlohmann::json value) {
    std::vector<std::string> path;
    for (const Level& level : levels_) path.push_back(level.key);
    take_(path, std::move(value));
    num_values_ = 0;
  }

  bool is_inside_member() const {
    return !levels_.empty() && !levels_.back().is_forgetful;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw CheckpointError(file_, "", problem);
  }

  const std::string& file_;
  const size_t depth_, max_members_;
  const TakeMember& take_;
  std::vector<Level> levels_;
  size_t num_values_ = 0;  // of the member at hand
};

}  // namespace

nlohmann::json parse_strictly(std::string_view text, const std::string& file) {
  nlohmann::json root;
  const TakeMember keep = [&root](const auto&, auto value) { root = std::move(value); };
  StrictParser(file, 0, SIZE_MAX, keep).parse(text);
  return root;
}

void parse_members(std::string_view text, const std::string& file, size_t depth,
                   const TakeMember& take) {
  StrictParser(file, depth, kMaxJsonMembers, take).parse(text);
}

Fields::Fields(const nlohmann::json& object, std::string file, std::string place)
    : object_(object), file_(std::move(file)), place_(std::move(place)) {
  if (!object_.is_object()) fail("is not an object");
}

void Fields::fail(const std::string& problem) const {
  throw CheckpointError(file_, "", (place_.empty() ? "it" : place_) + " " + problem);
}

std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 60;
  const std::string text =
      value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

std::optional<int64_t> integer_in(const nlohmann::json& value, int64_t min, int64_t max) {
  const bool is_too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (!value.is_number_integer() || is_too_large) return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

const nlohmann::json& Fields::any(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) fail(text_of("has no \"", key, "\""));
  ++num_taken_;
  return *found;
}

int64_t Fields::integer(const char* key, int64_t min, int64_t max) {
  const auto value = integer_in(any(key), min, max);
  if (!value)
    fail(text_of("has \"", key, "\" that is no integer from ", min, " to ", max));
  return *value;
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

#include "launcher/inference/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using nlohmann::ordered_json;

constexpr char kHelp[] =
    "/reset       begin anew\n"
    "/system TEXT begin anew, with these instructions; without TEXT with none\n"
    "/exit        end, as Ctrl-D does\n"
    "Ctrl-C stops an answer; a line with a blank before its / is no command.";

ordered_json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Conversation::Typed Conversation::take(const std::string& line) {
  const std::string text(trimmed(line));
  if (text.empty()) return {Wish::kNothing};
  if (!is_utf8(line)) return {Wish::kRefused, "the line is not valid UTF-8"};
  if (line.starts_with('/')) {
    const size_t end = std::min(text.find_first_of(" \t\r"), text.size());
    return command(text.substr(0, end), std::string(trimmed(text.substr(end))));
  }
  if (!has_template_) messages_.clear();
  messages_.push_back(message("user", has_template_ ? text : line));
  return {Wish::kAnswer};
}

Conversation::Typed Conversation::command(const std::string& name,
                                          const std::string& rest) {
  if (name == "/exit" || name == "/quit") return {Wish::kEnd};
  if (name == "/help") return {Wish::kTold, kHelp};
  if (name == "/reset") {
    if (!rest.empty()) return {Wish::kRefused, "/reset stands alone"};
    messages_.clear();
    return {Wish::kTold, "begun anew"};
  }
  if (name == "/system" && has_template_) {
    instructions_ = rest;
    messages_.clear();
    return {Wish::kTold, rest.empty() ? "begun anew, without instructions"
                                      : "begun anew, with these instructions"};
  }
  if (name == "/system")
    return {Wish::kRefused, "without a chat template there are no instructions"};
  return {Wish::kRefused, fmt::format("\"{}\" is no command; /help tells them", name)};
}

ordered_json Conversation::asked() const {
  if (!has_template_) return messages_.back()["content"];
  ordered_json all = ordered_json::array();
  if (!instructions_.empty()) all.push_back(message("system", instructions_));
  all.insert(all.end(), messages_.begin(), messages_.end());
  return {{"messages", all}};
}

void Conversation::keep_answer(const std::string& text) {
  messages_.push_back(message("assistant", text));
}

}  // namespace zero::launcher

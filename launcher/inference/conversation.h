#pragma once
#include <nlohmann/json.hpp>
#include <string>

// What a person types to a model, line by line: what is said, and commands.
namespace zero::launcher {

class Conversation {
 public:
  // Of a model without a chat template each line is a text of its own.
  explicit Conversation(bool has_template) : has_template_(has_template) {}

  enum class Wish {
    kNothing,
    kAnswer,  // asked() is what the model is to go on with
    kTold,    // of a command, by `told`
    kRefused,
    kEnd
  };
  struct Typed {
    Wish wish;
    std::string told = {};
  };
  // A line that begins with / is a command, /help tells which there are.
  Typed take(const std::string& line);

  // A text, or an object with all messages.
  nlohmann::ordered_json asked() const;
  void keep_answer(const std::string& text);
  // As if the last line had not been typed.
  void forget_last() { messages_.erase(messages_.size() - 1); }

 private:
  Typed command(const std::string& name, const std::string& rest);

  const bool has_template_;
  std::string instructions_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace zero::launcher

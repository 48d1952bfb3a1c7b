#include "launcher/text/tokenizer.h"

#include <filesystem>

#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "launcher/text/python_child.h"
#include "launcher/text/token_cache.h"
#include "zero/errors.h"

namespace zero::launcher {

Tokenizer::Tokenizer(const std::string& path, const std::vector<std::string>& command)
    : child_(std::make_unique<PythonChild>(command)),
      vocab_(child_->ask<int64_t>({{"open", path}}, "vocab")) {}

Tokenizer::~Tokenizer() = default;

bool Tokenizer::has_template() {
  return child_->ask<bool>({{"has_template", true}}, "is_there");
}

std::vector<int64_t> Tokenizer::ids(const char* verb, const std::string& text) {
  if (!is_utf8(text))
    throw Error(ExitCode::kUsage, "the text is not valid UTF-8", "", "iconv -t utf-8");
  return child_->ask<std::vector<int64_t>>({{verb, text}}, "ids");
}

std::vector<int64_t> Tokenizer::encode(const std::string& text) {
  return ids("encode", text);
}

std::vector<int64_t> Tokenizer::encode_open(const std::string& text) {
  return ids("encode_open", text);
}

Tokenizer::Question Tokenizer::ask(const nlohmann::ordered_json& asked,
                                   const TextOptions& options) {
  if (asked.is_string() && !is_utf8(asked.get<std::string>()))
    throw Error(ExitCode::kUsage, "the text is not valid UTF-8", "", "iconv -t utf-8");
  nlohmann::ordered_json question = manner_of(options);
  question.update({{"asked", asked},
                   {"separator", options.separator},
                   {"text_key", options.text_key},
                   {"date", options.date}});
  using Both = std::vector<std::vector<int64_t>>;
  const auto both = child_->ask<Both>({{"ask", question}}, "ids");
  return {both.at(0), both.at(1)};
}

std::vector<int64_t> Tokenizer::separator(const std::string& word) {
  const nlohmann::json wanted = {
      {"files", nlohmann::json::array()}, {"separator", word}, {"text_key", "text"}};
  try {
    return child_->ask<std::vector<int64_t>>({{"look", wanted}}, "ids");
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage || !word.empty()) throw;
    return {};
  }
}

std::string Tokenizer::decode(const std::vector<int64_t>& tokens) {
  return child_->ask<std::string>({{"decode", tokens}}, "text");
}

std::string Tokenizer::next(int64_t text, std::optional<int64_t> token) {
  const nlohmann::ordered_json none, number = token.value_or(0);
  return child_->ask<std::string>({{"next", {text, token ? number : none}}}, "text");
}

void Tokenizer::restart() { child_->ask({{"restart", true}}); }

std::unique_ptr<Tokenizer> open_if_possible(const std::string& path,
                                            const std::vector<std::string>& command,
                                            const std::string& otherwise) {
  try {
    return std::make_unique<Tokenizer>(path, command);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kEnvironment) throw;
    warn(otherwise + ": " + error.what());
    return nullptr;
  }
}

std::string tokenizer_of(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace zero::launcher

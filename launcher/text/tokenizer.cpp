#include "launcher/text/tokenizer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "launcher/text/python_child.h"
#include "launcher/text/token_cache.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::kUsage, "a file of the tokenizer cannot be read: " + reason, path,
              "--tokenizer DIR: a model's folder whose files can be read");
}

fs::file_status look_up(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status)) refuse_file(path, error.message());
  return status;
}

}  // namespace

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
                   {"text_key", options.text_key}});
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
  return fs::exists(look_up(path)) ? path : "";
}

std::optional<std::string> read_tokenizer_file(const std::string& path) {
  const fs::file_status status = look_up(path);
  if (!fs::exists(status)) return std::nullopt;
  if (!fs::is_regular_file(status)) refuse_file(path, "it is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_file(path, std::strerror(errno));
  std::string text(fs::file_size(path), '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace zero::launcher

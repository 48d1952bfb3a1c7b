#include "launcher/commands/eval_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/inference/choices.h"
#include "launcher/inference/prompt_file.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/new_file.h"
#include "launcher/text/prompt.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// A question, as tokens.
struct EncodedQuestion {
  Question question;
  std::vector<CountedText> texts;  // of each choice
};

// The first rank's.
class Encoder {
 public:
  explicit Encoder(const LoadedModel& loaded)
      : loaded_(loaded), tokenizer_(open_tokenizer(loaded)) {}

  // How many tokens a prompt has; blanks at its end belong to the choice where a
  // tokenizer joins them to a word.
  int64_t count(const std::string& prompt) {
    const std::string text =
        tokenizer_ ? prompt.substr(0, prompt.find_last_not_of(' ') + 1) : prompt;
    const int64_t tokens = text.empty() && !tokenizer_ ? 0 : std::ssize(encode(text));
    if (tokens == 0)
      throw Error(ExitCode::kData, "a prompt without tokens: nothing tells what follows");
    return tokens;
  }

  // Of the whole text the tokens from `begin` on.
  CountedText encode_choice(const std::string& whole, int64_t begin) {
    CountedText text{encode(whole), begin};
    const int64_t length = std::ssize(text.tokens);
    if (begin >= length)
      throw Error(ExitCode::kData, "a choice adds no token to its prompt");
    const int64_t most = loaded_.shape.seq_len + 1;  // nothing follows the last
    if (length > most)
      throw Error(
          ExitCode::kData,
          fmt::format("prompt and choice have {} tokens, and the context takes {}",
                      length, most));
    return text;
  }

 private:
  TokenRow encode(const std::string& text) {
    return tokens_before(text, tokenizer_.get(), loaded_.checkpoint.run.is_text,
                         loaded_.shape.vocab());
  }

  const LoadedModel& loaded_;
  const std::unique_ptr<Tokenizer> tokenizer_;
};

EncodedQuestion ask(const Question& question, Encoder& encoder) {
  EncodedQuestion asked{question, {}};
  try {
    const int64_t begin = encoder.count(question.prompt);
    for (const std::string& choice : question.choices)
      asked.texts.push_back(encoder.encode_choice(question.prompt + choice, begin));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kData) throw;
    asked.question.wrong = error.problem();
  }
  return asked;
}

// The first rank reads, and tells the others.
std::vector<EncodedQuestion> read_all(const LoadedModel& loaded, Ranks& ranks) {
  json told = json::array();
  if (ranks.rank() == 0) {
    Encoder encoder(loaded);
    for (const Question& question : read_questions(loaded.settings.eval_choices)) {
      const EncodedQuestion asked =
          question.wrong.empty() ? ask(question, encoder) : EncodedQuestion{question, {}};
      json texts = json::array();
      for (const auto& [tokens, begin] : asked.texts) texts.push_back({tokens, begin});
      told.push_back({question.line, question.choices, question.answer.value_or(-1),
                      asked.question.wrong, texts});
    }
  }
  std::vector<EncodedQuestion> all;
  for (const json& each : json::parse(ranks.broadcast(told.dump()))) {
    EncodedQuestion asked{{.line = each[0], .choices = each[1], .wrong = each[3]}, {}};
    if (each[2] >= 0) asked.question.answer = each[2].get<int64_t>();
    for (const json& text : each[4]) asked.texts.push_back({text[0], text[1]});
    all.push_back(std::move(asked));
  }
  return all;
}

std::vector<std::string> records_of(const std::vector<Question>& questions,
                                    const std::vector<double>& log_likelihoods) {
  std::vector<std::string> records;
  auto next = log_likelihoods.begin();
  for (const Question& question : questions) {
    const auto end = next + std::ssize(question.choices);
    nlohmann::ordered_json record = {{"line", question.line},
                                     {"log_likelihoods", std::vector(next, end)}};
    if (question.answer) record["answer"] = *question.answer;
    records.push_back(json_text(record));
    next = end;
  }
  return records;
}

std::string result_line(const LoadedModel& loaded, const Accuracy& accuracy,
                        int64_t num_questions) {
  const auto share = [&](int64_t right) {
    return 100 * static_cast<double>(right) / static_cast<double>(accuracy.num_questions);
  };
  const std::string shares =
      accuracy.num_questions == 0
          ? "no question has an answer"
          : fmt::format("accuracy {:.2f} % | by length {:.2f} %",
                        share(accuracy.num_by_sum), share(accuracy.num_by_length));
  const std::string answered =
      accuracy.num_questions == 0 || accuracy.num_questions == num_questions
          ? ""
          : fmt::format(", {} with an answer", accuracy.num_questions);
  return fmt::format("choices step {} | {} | {} questions{} | {}", loaded.step, shares,
                     num_questions, answered, loaded.checkpoint.folder);
}

}  // namespace

ExitCode evaluate_choices(LoadedModel& loaded, const std::string& to) {
  const NewFile file{"--to FILE", "log likelihoods"};
  Ranks& ranks = loaded.engine->control();
  const bool is_first = ranks.rank() == 0;
  if (is_first && !to.empty()) require_new_file(to, file);
  std::vector<Question> questions;
  std::vector<CountedText> texts;
  std::vector<WrongLine> wrong;
  for (EncodedQuestion& asked : read_all(loaded, ranks)) {
    if (!asked.question.wrong.empty()) {
      wrong.push_back({asked.question.line, asked.question.wrong});
      continue;
    }
    questions.push_back(std::move(asked.question));
    std::ranges::move(asked.texts, std::back_inserter(texts));
  }
  if (questions.empty()) refuse_all_lines(loaded.settings.eval_choices, wrong[0]);
  if (is_first) tell_wrong(loaded.settings.eval_choices, wrong);
  const auto losses = [&](const data::Batch& batch) {
    return loaded.runner->scores(batch, /*asks_each_target=*/true).target_losses;
  };
  const auto found = log_likelihoods(texts, loaded.settings.micro_batch, losses, ranks);
  if (is_first && !to.empty())
    write_new_file(to, file, [&](const WriteBytes& write) {
      for (const std::string& record : records_of(questions, found)) write(record + "\n");
    });
  const Accuracy accuracy = accuracy_of(questions, found);
  if (is_first) print_line(result_line(loaded, accuracy, std::ssize(questions)));
  if (is_first && accuracy.num_unknown > 0)
    warn(fmt::format("the likelihoods of {} of {} questions are not numbers (NaN)",
                     accuracy.num_unknown, questions.size()));
  if (wrong.empty()) return ExitCode::kDone;
  if (is_first) tell_unused(loaded.settings.eval_choices, wrong.size());
  return ExitCode::kData;
}

}  // namespace zero::launcher

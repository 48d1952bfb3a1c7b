#include "launcher/inference/choices.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "launcher/inference/many_texts.h"
#include "launcher/inference/prompt_file.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::optional<int64_t> index_of_answer(const json& answer,
                                       const std::vector<std::string>& choices) {
  if (answer.is_number_integer()) return answer.get<int64_t>();
  const auto found = std::ranges::find(
      choices, answer.is_string() ? answer.get<std::string>() : std::string());
  if (found == choices.end()) return -1;
  return found - choices.begin();
}

Question question_of(int64_t line, const json& object) {
  Question question{line};
  const auto wrong = [&](const char* what) {
    question.wrong = what;
    return question;
  };
  if (!object.contains("prompt") || !object["prompt"].is_string())
    return wrong("the line has no text in \"prompt\"");
  question.prompt = object["prompt"];
  const json choices = object.value("choices", json::array());
  const auto is_text = [](const json& each) { return each.is_string() && each != ""; };
  if (!choices.is_array() || choices.size() < 2 || !std::ranges::all_of(choices, is_text))
    return wrong("the line has no two texts in \"choices\"");
  question.choices = choices;
  if (!object.contains("answer") || object["answer"].is_null()) return question;
  question.answer = index_of_answer(object["answer"], question.choices);
  if (*question.answer < 0 || *question.answer >= std::ssize(question.choices))
    return wrong("\"answer\" is none of the choices, nor the number of one, from 0");
  return question;
}

// Rows are as long as the longest; what is behind a text counts for nothing, and nothing
// before it sees it.
data::Batch batch_of(const std::vector<CountedText>& texts,
                     const std::vector<size_t>& which) {
  int64_t longest = 2;
  for (const size_t text : which)
    longest = std::max<int64_t>(longest, std::ssize(texts[text].tokens));
  data::Batch batch = data::empty_batch(std::ssize(which), longest - 1);
  for (size_t row = 0; row < which.size(); ++row) {
    const auto& [tokens, begin] = texts[which[row]];
    const size_t first = row * static_cast<size_t>(batch.seq_len);
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      batch.inputs[first + i] = tokens[i];
      const bool counts = static_cast<int64_t>(i) + 1 >= begin;
      batch.targets[first + i] = counts ? tokens[i + 1] : -1;
    }
  }
  return batch;
}

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  std::vector<Question> questions;
  for (const JsonLine& line : read_json_lines(path, "--choices FILE"))
    questions.push_back(line.wrong.empty()
                            ? question_of(line.line, line.object)
                            : Question{.line = line.line, .wrong = line.wrong});
  return questions;
}

std::vector<double> log_likelihoods(
    const std::vector<CountedText>& texts, int64_t rows,
    const std::function<std::vector<float>(const data::Batch&)>& losses, Ranks& ranks) {
  std::vector<int64_t> lengths;
  for (const CountedText& text : texts) lengths.push_back(std::ssize(text.tokens));
  const auto batches = batches_of(lengths, rows);
  std::vector<double> sums(texts.size());
  // Every rank runs as many passes as the others: their weights are gathered together.
  for (size_t first = 0; first < batches.size(); first += ranks.size()) {
    const size_t own = first + ranks.rank();
    if (own >= batches.size()) {
      losses(data::empty_batch(1, 1));
      continue;
    }
    const std::vector<float> found = losses(batch_of(texts, batches[own]));
    const size_t length = found.size() / batches[own].size();
    for (size_t row = 0; row < batches[own].size(); ++row) {
      const auto begin = found.begin() + static_cast<ptrdiff_t>(row * length);
      sums[batches[own][row]] =
          -std::accumulate(begin, begin + static_cast<ptrdiff_t>(length), 0.0);
    }
  }
  ranks.all_reduce(sums, ReduceOp::kSum, "choices");  // one rank's, and zeros
  return sums;
}

Accuracy accuracy_of(const std::vector<Question>& questions,
                     const std::vector<double>& log_likelihoods) {
  Accuracy accuracy;
  size_t first = 0;
  for (const Question& question : questions) {
    const size_t count = question.choices.size();
    std::vector<double> by_sum, by_length;
    for (size_t i = 0; i < count; ++i) {
      by_sum.push_back(log_likelihoods[first + i]);
      by_length.push_back(by_sum[i] / static_cast<double>(question.choices[i].size()));
    }
    first += count;
    const bool is_known = std::ranges::none_of(by_sum, [](double v) { return v != v; });
    accuracy.num_unknown += !is_known;
    if (!question.answer) continue;
    const auto likeliest = [&](const std::vector<double>& values) {
      return is_known ? std::ranges::max_element(values) - values.begin() : -1;
    };
    ++accuracy.num_questions;
    accuracy.num_by_sum += likeliest(by_sum) == *question.answer;
    accuracy.num_by_length += likeliest(by_length) == *question.answer;
  }
  return accuracy;
}

}  // namespace zero::launcher

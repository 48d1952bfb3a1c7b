#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/samples.h"
#include "launcher/inference/text_reader.h"

namespace zero {
class Ranks;
}

// Which of several ends of a prompt a model thinks the likeliest.
namespace zero::launcher {

struct Question {
  int64_t line = 0;  // of its file, from 1
  std::string prompt = {};
  std::vector<std::string> choices = {};
  std::optional<int64_t> answer = {};  // the right one, from 0; nothing: nobody says
  std::string wrong = {};              // what is wrong with the line; "": nothing
};

// The lines of a file of JSONL: objects with `prompt`, `choices`, and `answer`, the
// number of the right one from 0, or its text. Throws Error(kUsage) for a file that
// cannot be read, or has no questions.
std::vector<Question> read_questions(const std::string& path);

// A text whose tokens from `begin` on count, each as it follows all before it.
struct CountedText {
  TokenRow tokens;
  int64_t begin = 1;
};

// Logarithms of the likelihoods of texts; `losses` are those of each target of a batch,
// (rows, seq_len), the tokens that count. Batches are of `rows` texts of like lengths,
// dealt to the ranks. Collective.
std::vector<double> log_likelihoods(
    const std::vector<CountedText>& texts, int64_t rows,
    const std::function<std::vector<float>(const data::Batch&)>& losses, Ranks& ranks);

struct Accuracy {
  int64_t num_questions = 0;  // that have an answer
  int64_t num_by_sum = 0;     // right ones, by the likelihood of the whole choice
  int64_t num_by_length = 0;  // by its logarithm divided by the choice's bytes
  int64_t num_unknown = 0;    // of all questions, those with a likelihood that is NaN
};

// log_likelihoods: of each choice of each question, one behind the other. Of equal ones
// the first counts; where one is NaN, none is right.
Accuracy accuracy_of(const std::vector<Question>& questions,
                     const std::vector<double>& log_likelihoods);

}  // namespace zero::launcher

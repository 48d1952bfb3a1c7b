#include "launcher/inference/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/names.h"
#include "launcher/inference/sampling.h"
#include "launcher/run/console.h"
#include "offload/random.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// In [0, 1), a function of the seed, the text's numbers and the token's place alone.
double uniform_number(uint64_t seed, const TextBegin& begin, int64_t place) {
  const uint64_t text = (uint64_t{begin.prompt} << 32) | begin.sample;
  const auto bits =
      philox(hash_key(seed, "generated text"), static_cast<uint64_t>(place), text);
  return std::ldexp(
      static_cast<double>(bits[0]) + std::ldexp(static_cast<double>(bits[1] >> 11), -21),
      -32);
}

// A row, while it is made.
struct GrowingText {
  const TextBegin& begin;
  TokenRow text = begin.tokens;  // with what followed
  std::optional<Finish> finish = {};
  std::vector<double> log_probs = {};

  int64_t num_made() const { return std::ssize(text) - std::ssize(begin.tokens); }
};

}  // namespace

void require_room(int64_t num_tokens, int64_t context, const std::string& cure) {
  if (num_tokens == 0)
    throw Error(ExitCode::kUsage, "the prompt has no tokens", "--prompt", "a longer one");
  if (num_tokens < context) return;
  throw Error(ExitCode::kUsage,
              fmt::format("a prompt of {} tokens leaves no room in a context of {}",
                          num_tokens, context),
              "--prompt", cure);
}

std::string to_text(Finish finish) {
  constexpr std::array kNames = {"tokens", "end", "stop", "length", "nan", "broken"};
  return kNames[static_cast<size_t>(finish)];
}

std::string early_end(Finish finish, int64_t context) {
  if (finish == Finish::kContext)
    return fmt::format("the text ends by length: the context of {} tokens is full",
                       context);
  if (finish == Finish::kNoNumbers)
    return "the text ends: the model's logits are not numbers (NaN); --dtype bf16 or "
           "fp32 have a larger range than fp16";
  return "";
}

std::vector<TextEnd> generate(const std::vector<TextBegin>& begins,
                              const Settings& settings, int64_t context,
                              TextReader& reader, const IsStopped& is_stopped,
                              const OnToken& on_token, const Agree& agree) {
  const Sampling sampling = {
      .repetition_penalty = settings.sample_repetition_penalty,
      .temperature = settings.sample_greedy ? 0 : settings.sample_temperature,
      .top_k = settings.sample_top_k,
      .top_p = settings.sample_top_p,
      .min_p = settings.sample_min_p};
  const auto seed = static_cast<uint64_t>(settings.seed);
  std::vector<GrowingText> rows;
  std::vector<TokenRow> more;
  for (const TextBegin& begin : begins) {
    require_room(std::ssize(begin.tokens), context);
    rows.push_back({begin});
    more.push_back(begin.tokens);
    if (settings.sample_tokens == 0) rows.back().finish = Finish::kTokens;
  }
  const auto draw = [&](const GrowingText& row, const std::vector<float>& logits) {
    return choose_token(logits, row.text, sampling,
                        uniform_number(seed, row.begin, row.num_made()));
  };
  const auto add_token = [&](GrowingText& row, int64_t token,
                             const std::vector<float>& logits) {
    if (token == kNoToken) {
      row.finish = Finish::kNoNumbers;
      return;
    }
    if (std::ranges::count(row.begin.ends, token) > 0) {
      row.finish = Finish::kEnd;
      return;
    }
    row.text.push_back(token);
    if (settings.sample_log_probs) row.log_probs.push_back(log_prob(logits, token));
    if (on_token && on_token(&row - rows.data(), token))
      row.finish = Finish::kStop;
    else if (row.num_made() == settings.sample_tokens)
      row.finish = Finish::kTokens;
    else if (std::ssize(row.text) == context)
      row.finish = Finish::kContext;
  };
  while (
      !std::ranges::all_of(rows, [](const GrowingText& row) { return !!row.finish; })) {
    if (is_stopped()) break;
    const auto logits = reader.read(more);
    TokenRow drawn;
    for (size_t i = 0; i < rows.size(); ++i)
      drawn.push_back(rows[i].finish ? 0 : draw(rows[i], logits[i]));
    if (agree) drawn = agree(drawn);
    for (size_t i = 0; i < rows.size(); ++i) {
      more[i].clear();
      if (rows[i].finish) continue;
      add_token(rows[i], drawn[i], logits[i]);
      if (!rows[i].finish) more[i] = {rows[i].text.back()};
    }
  }
  std::vector<TextEnd> ends;
  for (GrowingText& row : rows) {
    TextEnd& end = ends.emplace_back();
    end.tokens = {row.text.end() - row.num_made(), row.text.end()};
    end.finish = row.finish.value_or(Finish::kBroken);
    if (settings.sample_log_probs) end.log_probs = std::move(row.log_probs);
  }
  return ends;
}

TextsAtOnce texts_at_once(const std::vector<TextBegin>& begins, const Settings& settings,
                          const ModelShape& shape) {
  int64_t longest = 0;
  for (const TextBegin& begin : begins)
    longest = std::max<int64_t>(longest, std::ssize(begin.tokens));
  return {std::ssize(begins), std::min(longest + settings.sample_tokens, shape.seq_len)};
}

namespace {

// One of several texts that grow from one prompt.
struct SampledText {
  TokenWriter writer;
  StoppedText stopped;
  Show show = {};
  GeneratedText made = {};

  void add(std::string& to, const std::string& piece) {
    to += piece;
    if (show && !piece.empty()) show(printable(piece));
  }
  void add_token(int64_t token) { add(made.text, stopped.add(writer.add(token))); }
  void finish(TextEnd end) {
    add(made.text, stopped.add(writer.finish()));
    add(made.text, stopped.finish());
    made.end = std::move(end);
  }
};

}  // namespace

std::vector<GeneratedText> make_texts(TextReader& reader,
                                      const std::vector<TextBegin>& begins,
                                      const Settings& settings, const ModelShape& shape,
                                      const TextManner& manner) {
  std::vector<SampledText> texts;
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    const NextText next = manner.speech ? manner.speech(i) : nullptr;
    texts.push_back({TokenWriter(manner.is_text, next), StoppedText(settings.sample_stop),
                     i == 0 ? manner.show : Show()});
    const TokenRow& prompt = begins[i].tokens;
    if (manner.shows_prompt) {
      for (const int64_t token : prompt)
        texts[i].add(texts[i].made.prompt, texts[i].writer.add(token));
    } else if (!begins[i].is_answered) {
      // The first token of a text may be written otherwise: without its blank.
      constexpr int64_t kEnough = 8;
      for (const int64_t token : std::span(prompt).last(
               static_cast<size_t>(std::min(std::ssize(prompt), kEnough))))
        texts[i].writer.add(token);
      texts[i].writer.finish();
    }
  }
  const auto add_token = [&](int64_t row, int64_t token) {
    texts[row].add_token(token);
    return !settings.sample_stop.empty() &&
           manner.sees_stop(texts[row].stopped.has_stopped());
  };
  std::vector<TextEnd> ends = generate(begins, settings, shape.seq_len, reader,
                                       manner.is_stopped, add_token, manner.agree);
  std::vector<GeneratedText> made;
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i].finish(std::move(ends[i]));
    made.push_back(std::move(texts[i].made));
  }
  return made;
}

}  // namespace zero::launcher

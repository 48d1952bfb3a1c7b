#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "launcher/commands/generate.h"
#include "launcher/inference/conversation.h"
#include "launcher/process/handler_scope.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/line_editor.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// Ctrl-C, while an answer is made; a second one does not wait for the token.
std::atomic<bool> is_interrupted = false;
void interrupt(int) {
  if (is_interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::kInterrupted));
}

class Talker : public Speaking {
 public:
  // Collective, before the model is loaded.
  Talker(LoadedModel& loaded, const TokenRow& ends, bool has_limit, Ranks& ranks)
      : Speaking(loaded, loaded.batch.rank == 0 ? open_tokenizer(loaded) : nullptr),
        asking_(agree_on_asking(ends, ranks)) {
    asking_.options.special = "text";  // whatever a person or a model has said
    is_chat_ = ranks.largest(tokenizer_ && tokenizer_->has_template(), "template") > 0;
    talk_.emplace(is_chat_);
    if (is_chat_ && !has_limit) loaded.settings.sample_tokens = loaded.shape.seq_len;
    loaded.texts = {1, loaded.shape.seq_len};
  }

  ExitCode speak() override {
    Ranks& ranks = loaded_.engine->control();
    ReadingTimes times;
    ContinuedReader reader([&] {
      return std::make_unique<TimedReader>(loaded_.runner->reader(loaded_.texts), times);
    });
    if (is_first_ && editor_.is_on_terminal()) tell_aside(greeting());
    while (const auto begin = agree_on_turn(ranks)) answer(*begin, reader, ranks);
    if (is_first_ && num_turns_ > 0) tell_aside(times.describe(peak_resident_bytes()));
    if (num_refused_ == 0) return ExitCode::kDone;
    if (is_first_) warn(fmt::format("{} lines could not be answered", num_refused_));
    return ExitCode::kData;
  }

 private:
  std::string greeting() const {
    return fmt::format("{} of at most {} tokens; /help tells the commands",
                       is_chat_ ? "a conversation" : "each line is continued, to a text",
                       loaded_.shape.seq_len);
  }

  // What the first rank's person wants to be continued; nothing: no more.
  std::optional<TextBegin> agree_on_turn(Ranks& ranks) {
    json turn;
    if (is_first_) {
      const auto begin = next_turn();
      turn = begin ? json{begin->tokens, begin->ends} : json(num_refused_);
    }
    turn = json::parse(ranks.broadcast(turn.dump()));
    if (turn.is_number()) {
      num_refused_ = turn;
      return std::nullopt;
    }
    return TextBegin{.tokens = turn[0],
                     .prompt = num_turns_++,
                     .ends = settings_.sample_ignore_eos ? TokenRow() : TokenRow(turn[1]),
                     .is_answered = is_chat_};
  }

  std::optional<TextBegin> next_turn() {
    while (const auto line = editor_.read("> ")) {
      const auto [wish, told] = talk_->take(*line);
      using Wish = Conversation::Wish;
      if (wish == Wish::kEnd) break;
      if (wish == Wish::kTold) tell_aside(told);
      if (wish == Wish::kRefused) refuse(told);
      if (wish != Wish::kAnswer) continue;
      try {
        auto [tokens, ends] = question_of(talk_->asked(), asking_);
        require_room(std::ssize(tokens), loaded_.shape.seq_len,
                     is_chat_ ? "/reset begins anew" : "a shorter line");
        return TextBegin{.tokens = std::move(tokens), .ends = std::move(ends)};
      } catch (const Error& error) {
        if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kData) throw;
        talk_->forget_last();
        refuse(error.problem() + (error.cure().empty() ? "" : "; " + error.cure()));
      }
    }
    return std::nullopt;
  }

  // A person sees it, and goes on.
  void refuse(const std::string& why) {
    if (!editor_.is_on_terminal()) ++num_refused_;
    warn(why);
  }

  void answer(const TextBegin& begin, ContinuedReader& reader, Ranks& ranks) {
    is_interrupted = false;
    // Nobody at a terminal: Ctrl-C ends the program, as elsewhere.
    std::optional<HandlerScope<1>> stops;
    if (editor_.is_on_terminal()) stops.emplace(std::array{SIGINT}, interrupt);
    TextManner manner = made_together(plain_manner(), ranks);
    manner.is_stopped = [&] {
      return ranks.largest(is_first_ && is_interrupted, "Ctrl-C") > 0;
    };
    if (is_first_) manner.show = [](const std::string& piece) { print_text(piece); };
    reader.begin_text();
    const GeneratedText made =
        make_texts(reader, {begin}, settings_, loaded_.shape, manner).front();
    if (!is_first_) return;
    print_line("");
    if (is_chat_) talk_->keep_answer(made.text);
    const std::string end = early_end(made.end.finish, loaded_.shape.seq_len);
    if (!end.empty()) warn(end);
  }

  Asking asking_;
  bool is_chat_ = false;
  std::optional<Conversation> talk_;
  LineEditor editor_;
  uint32_t num_turns_ = 0;
  int64_t num_refused_ = 0;  // lines of no terminal
};

}  // namespace

std::unique_ptr<Speaking> prepare_talk(LoadedModel& loaded, const TokenRow& ends,
                                       bool has_limit, Ranks& ranks) {
  return std::make_unique<Talker>(loaded, ends, has_limit, ranks);
}

}  // namespace zero::launcher

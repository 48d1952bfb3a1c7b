#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/hash.h"
#include "base/processes.h"
#include "base/seconds.h"
#include "launcher/commands/generate.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/inference/many_texts.h"
#include "launcher/inference/prompt_file.h"
#include "launcher/inference/text_records.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using nlohmann::json, nlohmann::ordered_json;

std::string contents_of(const std::string& path) {
  std::ostringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  return whole.str();
}

// Of a folder of Hugging Face: its config, and the files' sizes and times.
std::string traits_of_folder(const std::string& folder, const std::string& config) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      files.push_back(fmt::format("{} {} {}", entry.path().filename().string(),
                                  entry.file_size(),
                                  entry.last_write_time().time_since_epoch().count()));
  std::ranges::sort(files);
  return contents_of(folder + "/" + config) + fmt::format("{}", fmt::join(files, ","));
}

// A checkpoint's manifest has hashes of all its tensors.
std::string hash_of_model(const FoundCheckpoint& from, const std::string& adapter) {
  const std::string base = from.is_model_folder
                               ? traits_of_folder(from.folder, "config.json")
                               : contents_of(from.folder + "/manifest.json");
  return hex_hash(
      adapter.empty() ? base : base + traits_of_folder(adapter, "adapter_config.json"));
}

// A line of the file, as tokens.
struct Prompt {
  PromptLine line;
  TokenRow tokens, ends;
};

// Each rank writes the texts that it makes, and so has a tokenizer.
std::unique_ptr<Tokenizer> agreed_tokenizer(const LoadedModel& loaded, Ranks& ranks) {
  agree_on_tokenizer(tokenizer_path(loaded), ranks);
  return open_tokenizer(loaded);
}

class ManyTextsSpeaker : public Speaking {
 public:
  // Collective, before the model is loaded.
  ManyTextsSpeaker(LoadedModel& loaded, const TokenRow& ends, std::string to,
                   Ranks& ranks)
      : Speaking(loaded, agreed_tokenizer(loaded, ranks)),
        to_(std::move(to)),
        asking_(agree_on_asking(ends, ranks)) {
    read_prompts_of_file(ranks);
    agree_on_what_to_make(ranks);
    loaded.texts = texts();
  }

  ExitCode speak() override {
    catch_stop_signals();
    const auto begin = std::chrono::steady_clock::now();
    const bool are_made = make_many(
        {.batches = batches(),
         .reader =
             [this](int64_t rows, InStep& in_step) {
               return std::make_unique<TimedReader>(
                   loaded_.runner->reader({rows, loaded_.texts.tokens},
                                          [&in_step] { in_step.begin_pass(); }),
                   times_);
             },
         .make = [this](const std::vector<size_t>& batch, TextReader& reader,
                        const InStep& in_step) { return make(batch, reader, in_step); },
         .keep = [this](const std::vector<std::string>& made) { keep(made); },
         .wants_stop = [] { return stop_signal() != 0; }},
        loaded_.engine->control());
    seconds_ = seconds_since(begin);
    // A signal may have come when all were there.
    const bool is_done =
        are_made || loaded_.engine->control().largest(num_missing(), "texts") == 0;
    times_.add_up(loaded_.engine->control());
    if (is_first_) {
      set_status("");
      records_->finish();
      tell_aside(statistics());
      if (num_nan_ > 0)
        warn(fmt::format("{} of the texts: {}", num_nan_,
                         early_end(Finish::kNoNumbers, loaded_.shape.seq_len)));
    }
    forget_stop_signals();
    if (!is_done) {
      tell_end("stopped before all texts were made" +
               std::string(to_.empty() ? "" : "; the same command goes on"));
      return ExitCode::kInterrupted;
    }
    if (num_wrong_ == 0) return ExitCode::kDone;
    if (is_first_) tell_unused(settings_.sample_prompts, num_wrong_);
    return ExitCode::kData;
  }

 private:
  struct Wanted {
    size_t prompt;
    int64_t sample;
    bool is_there;
  };

  // The first rank reads, and tells the others.
  void read_prompts_of_file(Ranks& ranks) {
    ordered_json told = ordered_json::array();
    if (is_first_) {
      for (const PromptLine& line : read_prompts(settings_.sample_prompts)) {
        const Prompt prompt = prompt_of(line);
        told.push_back({line.line, line.asked, prompt.tokens, prompt.ends,
                        prompt.line.wrong, prompt.line.cure});
        sign_unless_stopped(std::ssize(prompt.tokens));
      }
    }
    std::vector<WrongLine> wrong;
    std::string cure;  // of the first
    for (const auto& each : ordered_json::parse(ranks.broadcast(told.dump()))) {
      PromptLine line{each[0], each[1], each[4], each[5]};
      line.tokens_hash = hex_hash(ordered_json({each[2], each[3]}).dump());
      if (line.wrong.empty())
        prompts_.push_back({line, each[2], each[3]});
      else
        wrong.push_back({line.line, line.wrong});
      if (wrong.size() == 1 && !line.wrong.empty()) cure = line.cure;
    }
    if (prompts_.empty()) refuse_all_lines(settings_.sample_prompts, wrong[0], cure);
    num_wrong_ = wrong.size();
    if (is_first_) tell_wrong(settings_.sample_prompts, wrong);
  }

  Prompt prompt_of(const PromptLine& line) {
    Prompt prompt{line, {}, asking_.ends};
    if (!line.wrong.empty()) return prompt;
    try {
      auto [tokens, ends] = question_of(line.asked, asking_);
      prompt.tokens = std::move(tokens);
      prompt.ends = std::move(ends);
      require_room(std::ssize(prompt.tokens), loaded_.shape.seq_len);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kData) throw;
      prompt.line.wrong = error.problem();
      prompt.line.cure = error.cure();
    }
    return prompt;
  }

  void agree_on_what_to_make(Ranks& ranks) {
    json told;
    if (is_first_) {
      with_ = {hash_of_model(loaded_.checkpoint, settings_.adapter),
               hash_of_settings(settings_, loaded_.shape, tokenizer_path(loaded_))};
      std::vector<PromptLine> lines;
      for (const Prompt& prompt : prompts_) lines.push_back(prompt.line);
      records_.emplace(to_, lines, with_);
      json are_there = json::array();
      for (const Prompt& prompt : prompts_)
        for (int64_t sample = 0; sample < settings_.sample_count; ++sample)
          are_there.push_back(records_->has({prompt.line.line, sample}));
      told = {with_.model, with_.settings, are_there};
    }
    told = json::parse(ranks.broadcast(told.dump()));
    with_ = {told[0], told[1]};
    for (const json& is_there : told[2]) {
      const auto text = std::ssize(wanted_);
      wanted_.push_back({static_cast<size_t>(text / settings_.sample_count),
                         text % settings_.sample_count, is_there});
    }
  }

  // How many and how long they get at most, of those that will be made.
  TextsAtOnce texts() const {
    TextsAtOnce all{1, 2};
    for (const std::vector<size_t>& batch : batches()) {
      std::vector<TextBegin> begins;
      for (const size_t text : batch)
        begins.push_back({prompts_[wanted_[text].prompt].tokens});
      const TextsAtOnce own = texts_at_once(begins, settings_, loaded_.shape);
      all = {std::max(all.rows, own.rows), std::max(all.tokens, own.tokens)};
    }
    return all;
  }

  // Those in which a text is missing. They are made as a whole, so that its bits are
  // those of a run that was not stopped.
  std::vector<std::vector<size_t>> batches() const {
    std::vector<int64_t> lengths;
    for (const Wanted& wanted : wanted_)
      lengths.push_back(std::ssize(prompts_[wanted.prompt].tokens));
    auto batches = batches_of(lengths, settings_.sample_batch);
    std::erase_if(batches, [&](const std::vector<size_t>& batch) {
      return std::ranges::all_of(batch,
                                 [&](size_t text) { return wanted_[text].is_there; });
    });
    return batches;
  }

  std::vector<std::string> make(const std::vector<size_t>& batch, TextReader& reader,
                                const InStep& in_step) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<TextBegin> begins;
    for (const size_t text : batch) {
      const Prompt& prompt = prompts_[wanted_[text].prompt];
      begins.push_back({prompt.tokens, static_cast<uint32_t>(prompt.line.line - 1),
                        static_cast<uint32_t>(wanted_[text].sample),
                        settings_.sample_ignore_eos ? TokenRow() : prompt.ends,
                        /*is_answered=*/!prompt.line.asked.is_string()});
    }
    TextManner manner = plain_manner();
    manner.is_stopped = [&] { return in_step.is_stopped(); };
    const auto texts = make_texts(reader, begins, settings_, loaded_.shape, manner);
    const double seconds = seconds_since(begin);
    std::vector<std::string> made;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Wanted& wanted = wanted_[batch[i]];
      if (wanted.is_there || texts[i].end.finish == Finish::kBroken) continue;
      const PromptLine& line = prompts_[wanted.prompt].line;
      const double tokens = static_cast<double>(texts[i].end.tokens.size());
      made.push_back(to_record(
          {line.line, wanted.sample, texts[i], seconds > 0 ? tokens / seconds : 0}, line,
          with_));
    }
    return made;
  }

  void keep(const std::vector<std::string>& made) {
    records_->add(made);
    for (const std::string& record : made) {
      const json told = json::parse(record);
      num_tokens_ += std::ssize(told["tokens"]);
      num_nan_ += told["finish"] == to_text(Finish::kNoNumbers);
    }
    num_made_ += made.size();
    if (isatty(STDERR_FILENO) != 0) set_status(how_many() + " texts");
  }

  void tell_end(const std::string& line) const {
    if (is_first_) warn(line);
  }

  // On the first rank, which keeps count.
  int64_t num_missing() const {
    if (!is_first_) return 0;
    return std::ranges::count(wanted_, false, &Wanted::is_there) -
           static_cast<int64_t>(num_made_);
  }

  // "12 of 40": are there by now.
  std::string how_many() const {
    const auto before = std::ranges::count(wanted_, true, &Wanted::is_there);
    return fmt::format("{} of {}", num_made_ + static_cast<size_t>(before),
                       wanted_.size());
  }

  std::string statistics() const {
    return fmt::format("{} texts made, {} are there; {} tokens in {:.1f} s; {}",
                       num_made_, how_many(), num_tokens_, seconds_,
                       times_.describe(peak_resident_bytes()));
  }

  const std::string to_;
  const Asking asking_;
  std::vector<Prompt> prompts_;
  size_t num_wrong_ = 0;
  MadeWith with_;
  std::optional<TextRecords> records_;  // on the first rank
  std::vector<Wanted> wanted_;
  size_t num_made_ = 0, num_nan_ = 0;
  int64_t num_tokens_ = 0;
  double seconds_ = 0;
  ReadingTimes times_;
};

}  // namespace

std::string hash_of_settings(const Settings& settings, const ModelShape& shape,
                             const std::string& tokenizer) {
  constexpr char kKeys[] =
      "seed sample_tokens sample_temperature sample_greedy sample_top_k sample_top_p "
      "sample_min_p sample_repetition_penalty sample_stop sample_ignore_eos "
      "sample_log_probs sample_batch dtype separator end_of_turn special_in_content "
      "device tf32";
  json all;
  for (const std::string& key : split(kKeys, ' '))
    all.push_back(find_setting(key)->value(settings));
  all.push_back(shape.config);
  all.push_back(shape.seq_len);
  all.push_back(tokenizer.empty() ? "" : hex_hash(contents_of(tokenizer)));
  return hex_hash(all.dump());
}

std::unique_ptr<Speaking> prepare_many(LoadedModel& loaded, const TokenRow& ends,
                                       const std::string& to, Ranks& ranks) {
  return std::make_unique<ManyTextsSpeaker>(loaded, ends, to, ranks);
}

}  // namespace zero::launcher

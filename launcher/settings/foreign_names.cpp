#include "launcher/settings/foreign_names.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/settings/foreign_tables.h"
#include "launcher/settings/names.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// Files of other tools have keys within keys: the last one counts.
std::string normalized_name(const std::string& name) {
  std::string last = to_lower(name.substr(name.rfind('.') + 1));
  std::ranges::replace(last, '-', '_');
  return last;
}

}  // namespace

std::vector<std::string> foreign_name_advice(const std::string& name) {
  const std::string wanted = normalized_name(name);
  std::vector<std::string> all;
  for (const Translations* table : {&same_here(), &not_here()})
    for (const auto& [advice, foreign_names] : *table)
      if (std::ranges::count(split(foreign_names, ' '), wanted) > 0)
        all.push_back(advice);
  return all;
}

std::string nearly_foreign_name_advice(const std::string& name) {
  constexpr size_t kShortest = 6;  // that says enough
  for (const Translations* table : {&same_here(), &not_here()})
    for (const auto& [advice, foreign_names] : *table)
      for (const std::string& foreign : split(foreign_names, ' '))
        if (foreign.size() >= kShortest && is_near(name, foreign))
          return "perhaps " + foreign + "; " + advice;
  return "";
}

std::string foreign_verb_advice(const std::string& word) {
  static const Translations verbs = {
      {"here: train --out DIR, the command that started a run or just its folder",
       "resume continue restart"},
      {"here: train --init-from DIR --data PATH...",
       "finetune fine-tune fine_tune tune sft"},
      {"here: train --data PATH... --out DIR", "run pretrain fit start launch learn"},
      {"here: generate DIR --prompt TEXT; a model continues a text",
       "sample chat infer inference complete completions continue-text cli "
       "text-generation talk ask"},
      {"not here: nothing listens; generate DIR --prompt TEXT continues a text",
       "serve server api web"},
      {"here: export DIR --to DIR makes a folder for Hugging Face, and train --init-from "
       "DIR reads one",
       "convert convert-hf to-hf merge consolidate save save_pretrained download "
       "upload push load"},
      {"here: presets lists models, and inspect DIR what a run or a model holds",
       "list ls models list-models"},
      {"here: inspect DIR", "info show describe stat stats summary print cat"},
      {"here: verify DIR", "check fsck validate-checkpoint hash"},
      {"here: eval DIR --data PATH...",
       "test evaluate validate perplexity ppl score validation"},
      {"here: tokenize --tokenizer DIR --data PATH...; train does it itself",
       "tokenise prepare preprocess encode tokenizer data"},
      {"here: scripts/make_tokens.py --decode FILE", "decode detokenize"},
      {"not here: weights are fp32, bf16 or fp16; export DIR --to DIR --dtype bf16 "
       "halves them",
       "quantize quantise gguf compress prune distill"},
      {"here: seed --out DIR writes first values; train makes them itself",
       "init new create initialize"},
      {"here: report DIR", "plot dashboard monitor tensorboard status log logs curves"},
      {"here: diff A B", "compare cmp"},
      {"here: plan", "estimate memory size fits dry-run"},
      {"here: bench KIND", "benchmark speed profile perf time"},
      {"here: doctor", "env environment diagnose system gpus devices nvidia-smi"},
      {"here: selftest", "self-test selfcheck verify-install"},
      {"here: touch OUT/STOP, or Ctrl-C; the run saves and stops", "stop kill cancel"},
      {"here: train --print-config prints settings, --config FILE reads them",
       "config configure settings print-config"},
      {"here: --version", "version"},
  };
  for (const auto& [advice, words] : verbs)
    if (std::ranges::count(split(words, ' '), word) > 0) return advice;
  return "";
}

}  // namespace zero::launcher

#include "launcher/settings/lora_setting.h"
#include "launcher/settings/rules.h"
#include "launcher/settings/setting_groups.h"
#include "launcher/settings/values.h"
#include "zero/options.h"

// What a run is about: its model, its data.
namespace zero::launcher {

Group model_settings() {
  return {
      text(KEY(model), "NAME", "family of models"),
      text(KEY(preset), "NAME", "a shape of the family by name; empty: its default"),
      text(KEY(init_from), "DIR",
           "start from weights that are there, with their family and shape: a folder of "
           "Hugging Face, what seed has written, a run or one of its steps"),
      integer(KEY(layers), 0, 1 << 14, "blocks; 0: the preset's"),
      integer(KEY(dim), 0, 1 << 24, "width; 0: the preset's"),
      integer(KEY(heads), 0, 1 << 16, "attention heads; 0: the preset's"),
      integer(KEY(kv_heads), 0, 1 << 16, "heads of keys and values; 0: the preset's"),
      integer(KEY(ffn_dim), 0, 1 << 26,
              "width of the feed-forward layer; 0: the preset's"),
      integer(KEY(vocab), 0, 1 << 30, "vocabulary; 0: the preset's, else the data's"),
      list(KEY(model_config), "KEY=VALUE",
           "other keys of the model's config, named as in its config.json"),
      comma_list(KEY(parts), "PART,...",
                 "those of the model alone: embed, layers=0:8 (0 to 7), norm, head; "
                 "training needs embed and head; empty: all that there are"),
      word(
          KEY(lora),
          {RawValue::Type::kString, "r=N,...",
           "r=8,alpha=16,dropout=0.05,targets=q_proj+v_proj,rslora,modules-to-save=NAME, "
           "or some of these",
           "train low-rank adapters and nothing else: their rank, alpha, dropout, the "
           "layers that have one (all-linear: each linear layer), and modules that are "
           "trained, too"},
          [](const std::string& word) { return word.empty() || parse_lora(word); }),
      text(KEY(adapter), "DIR",
           "adapters of peft, on top of init_from, or of a model that is used"),
      number(KEY(dropout), 1, "fraction of activations dropped in training"),
      boolean(KEY(sync_bn, TO(sync_batch_norm)),
              "batch norms see the samples of all ranks together"),
  };
}

Group data_settings() {
  return {
      list(KEY(data), "PATH",
           "text files, folders of them, or token files; of a family for images a folder "
           "of class folders, or files of CIFAR or NumPy"),
      boolean(
          KEY(bytes),
          "learn the bytes of any file, also of what is no text or looks like JSONL or "
          "HTML"),
      text(KEY(tokenizer), "DIR|FILE",
           "a model's folder, or its tokenizer.json, by which texts become tokens; by "
           "default that of init_from, and of a run that goes on its own; without one "
           "bytes are tokens"),
      text(KEY(text_key), "KEY", "of a line of JSONL, where its text is"),
      text(KEY(separator), "TOKEN",
           "behind each text, or none; by default the tokenizer's end of text"),
      text(KEY(token_cache), "DIR",
           "where the tokens of texts are kept; by default the folder tokens of out"),
      text(KEY(python), "FILE",
           "a Python that has tokenizers; by default the one of zero's LibTorch, else "
           "python3"),
      choice(KEY(train_on), {"assistant", "last", "all"},
             "of conversations: what the assistant says, its last turn, or all"),
      text(KEY(end_of_turn), "TOKEN",
           "that ends the assistant's turns; by default the first special token behind "
           "them, or the end of text"),
      choice(KEY(special_in_content), {"error", "text"},
             "messages that spell special tokens of the tokenizer: refused, or text"),
      word(KEY(chat_date),
           {RawValue::Type::kString, "YYYY-MM-DD", "a date as 2026-11-26",
            "that chat templates tell; by default the run's first day"},
           [](const std::string& word) { return word.empty() || is_date(word); }),
      choice(KEY(too_long), {"error", "drop", "truncate"},
             "examples that are longer than a sample"),
      boolean(
          KEY(pack),
          "put several examples into a sample, none of which sees another; false: one"),
      integer(KEY(seq_len), 0, 1 << 24, "tokens of a sample; 0: the preset's"),
      boolean(KEY(shuffle), "a new order of samples in every epoch"),
      boolean(KEY(augment),
              "cut and mirror images at random in training, each time "
              "otherwise; in evaluations their middle counts"),
      list(KEY(eval_data), "PATH", "data for the evaluation loss"),
      number(KEY(eval_fraction), 1,
             "fraction of data, its end, that is held out for the evaluation loss and "
             "never trained on: at most 1000 samples, none of fewer than 100; by default "
             "none with eval_data or deterministic; 0: none"),
      integer(KEY(eval_every), 0, kMany,
              "steps between evaluations; 0: so many that evaluations take at most 2% of "
              "the time, with deterministic at the end only"),
      integer(KEY(eval_samples), 0, kMany, "samples of an evaluation; 0: all"),
  };
}

}  // namespace zero::launcher

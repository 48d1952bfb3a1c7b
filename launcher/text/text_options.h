#pragma once
#include <cstdint>
#include <string>

#include "launcher/settings/settings.h"
#include "launcher/text/token_cache.h"

// The tokenizer that settings mean.
namespace zero::launcher {

// The tokenizer.json of a folder or of such a file itself, as `flag` names it. Throws
// Error(kUsage) where there is none.
std::string require_tokenizer(const std::string& path, const std::string& flag);

// By which a run's texts become tokens: of --tokenizer; else of the run in --out that
// goes on, kept in its folder `source`; else of --init-from. "": of none, and with
// --bytes. Throws as require_tokenizer().
std::string find_tokenizer(const Settings& settings);

// How that tokenizer is used: tokens are kept in --token-cache, else in `folder`. vocab:
// the model's, if it is known.
TextOptions text_options(const Settings& settings, const std::string& tokenizer,
                         const std::string& folder, int64_t vocab = 0);

// YYYY-MM-DD.
std::string today();

// Where this user's programs keep what can be made again: $XDG_CACHE_HOME/zero.
std::string folder_of_user();

}  // namespace zero::launcher

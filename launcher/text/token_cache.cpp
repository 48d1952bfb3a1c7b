#include "launcher/text/token_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>

#include "base/hash.h"
#include "base/names.h"
#include "base/processes.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"
#include "checkpoint/own_folder.h"
#include "engine/comm/agreement.h"
#include "engine/watch/activity.h"
#include "launcher/data/text_kind.h"
#include "launcher/data/token_source.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/settings/values.h"
#include "launcher/text/python_child.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointError;
using checkpoint::Folder;
using nlohmann::json;

constexpr char kAbout[] = "about.json", kWhat[] = "tokens";
constexpr int64_t kLargestAbout = int64_t{16} << 20;
// Of what this writes: another number, other folders.
constexpr int kFormat = 2;

constexpr int64_t kNoVocab = int64_t{1} << 32;  // above any token

// The files beside a tokenizer that tell the end of a text, and how chats are written.
constexpr const char* kBeside[] = {
    "tokenizer_config.json",  "special_tokens_map.json",
    "chat_template.jinja",    "additional_chat_templates/tool_use.jinja",
    "generation_config.json", "config.json"};
constexpr std::span kOfChats = std::span(kBeside).first<4>();

std::string beside(const TextOptions& options, const char* name) {
  return fs::path(options.tokenizer).parent_path() / name;
}

// "": it is not there.
std::string hash_of_file(const std::string& path) {
  const auto text = read_tokenizer_file(path);
  return text ? hex_hash(*text) : "";
}

json hashes_beside(const TextOptions& options, std::span<const char* const> names) {
  json hashes = json::array();
  for (const char* name : names) hashes.push_back(hash_of_file(beside(options, name)));
  return hashes;
}

// Does the chat template tell one? It may be a key of tokenizer_config.json.
bool tells_date(const TextOptions& options) {
  return std::ranges::any_of(
      std::array{"chat_template.jinja", "tokenizer_config.json"}, [&](const char* name) {
        const auto text = read_tokenizer_file(beside(options, name));
        return text && text->find("strftime_now") != text->npos;
      });
}

// As far as it counts.
json counted_manner(const TextOptions& options) {
  json manner = manner_of(options);
  if (!tells_date(options)) manner.erase("date");
  return manner;
}

// Texts whose lines may be chats, in which a date may be told.
bool has_lines(const std::string& path) {
  const bool is_packed = to_lower(path).ends_with(".gz");
  return data::names_json_lines(is_packed ? path.substr(0, path.size() - 3) : path);
}

// Where texts and their tokenizer are, and whether they have changed since.
std::string stamp_of(const data::TokenSource& texts, const TextOptions& options) {
  json all = {kFormat, options.separator, options.text_key,
              hash_of_file(options.tokenizer), hashes_beside(options, kBeside)};
  if (std::ranges::any_of(texts.paths(), has_lines))
    all.push_back(counted_manner(options));
  for (const std::string& path : texts.paths()) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw_unreadable(path, "look", errno);
    all.push_back({fs::absolute(path).string(), status.st_size, status.st_mtim.tv_sec,
                   status.st_mtim.tv_nsec, status.st_ino});
  }
  return hex_hash(all.dump()) + ".seen";
}

// What decides the tokens.
std::string key_of(const data::TokenSource& texts, const TextOptions& options,
                   const json& look) {
  Activity::Stretch reading("looking whether the tokens are there");
  reading.expect(texts.num_bytes());
  json all = {kFormat, look.at("ids"), options.text_key, hash_of_file(options.tokenizer),
              to_hex(texts.content_hash(sign_unless_stopped))};
  if (look.at("examples").get<bool>()) {
    all.push_back(counted_manner(options));
    all.push_back(hashes_beside(options, kOfChats));
  }
  return hex_hash(all.dump());
}

// In a folder of the cache; nothing: it is not whole, or not ours.
std::optional<TokenizedText> read_entry(const Folder& cache, const std::string& key) {
  if (!cache.has_folder(key)) return std::nullopt;
  try {
    const Folder entry = cache.subfolder(key);
    const json about = json::parse(checkpoint::read_text(entry, kAbout, kLargestAbout));
    TokenizedText text;
    for (const json& file : about.at("files")) {
      const std::string name = file.at(0);
      if (!flaw_of_name(name).empty() || entry.size_of(name) != file.at(1))
        return std::nullopt;
      text.paths.push_back(entry.path_of(name));
    }
    if (text.paths.empty()) return std::nullopt;
    about.at("tokens").get_to(text.num_tokens);
    about.at("documents").get_to(text.num_documents);
    about.at("separator").get_to(text.separator);
    about.at("separator_shown").get_to(text.separator_shown);
    about.at("examples").get_to(text.are_examples);
    if (!text.are_examples) return text;
    text.targets = entry.path_of("targets.u8");
    text.index = entry.path_of("examples.idx");
    text.shapes = fmt::format(
        "{}", fmt::join(about.at("shapes").get<std::vector<std::string>>(), ", "));
    return text;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

// What was found last time. The file is a hint: one that is damaged counts as none.
std::optional<TokenizedText> find_seen(const Folder& cache,
                                       const std::string& stamp) try {
  if (!cache.has_file(stamp)) return std::nullopt;
  constexpr int64_t kMost = 64;
  const std::string key = checkpoint::read_text(cache, stamp, kMost);
  return from_hex(key) ? read_entry(cache, key) : std::nullopt;
} catch (const CheckpointError&) {
  return std::nullopt;
}

// Until the others that make tokens here are done; without locks at once.
void lock(const Folder& cache) {
  constexpr auto kPause = std::chrono::milliseconds(200);
  for (bool is_told = false; ::flock(cache.descriptor(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    if (!is_told) tell("waiting for another process that makes tokens: " + cache.path());
    is_told = true;
    sign_unless_stopped(0);
    std::this_thread::sleep_for(kPause);
  }
}

// A process that is at work holds its folder.
void remove_left_behind(const Folder& cache) {
  for (const std::string& name : cache.names()) {
    if (!checkpoint::is_temporary(name, kWhat) || !cache.has_folder(name)) continue;
    const Folder left = cache.subfolder(name);
    if (::flock(left.descriptor(), LOCK_EX | LOCK_NB) == 0)
      checkpoint::discard_tree(cache, name, checkpoint::system_io());
  }
}

[[noreturn]] void refuse_cache(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::kEnvironment, "cannot make a folder for tokens: " + reason, path,
              "--token-cache DIR, where files may be written");
}

// By what the first texts became.
void require_room(const std::string& folder, int64_t read, int64_t written, int64_t all) {
  const double needed = static_cast<double>(written) * static_cast<double>(all - read) /
                        static_cast<double>(std::max<int64_t>(read, 1));
  const auto room = static_cast<double>(fs::space(folder).available);
  if (needed <= room) return;
  throw Error(ExitCode::kEnvironment,
              fmt::format("the tokens of these texts need about {} more, and {} are free",
                          short_bytes(static_cast<int64_t>(needed)),
                          short_bytes(static_cast<int64_t>(room))),
              folder, "--token-cache DIR, on a disk with room");
}

// The tokenizer's process, and what it knows before it makes tokens.
struct Maker {
  PythonChild child;
  json look;

  Maker(const data::TokenSource& texts, const TextOptions& options)
      : child(options.command) {
    child.ask({{"open", options.tokenizer}});
    look = child.ask({{"look",
                       {{"files", texts.paths()},
                        {"separator", options.separator},
                        {"text_key", options.text_key}}}},
                     [](const json&) { sign_unless_stopped(0); });  // of many files
  }
  bool makes_examples() const { return look.at("examples").get<bool>(); }
};

json ask_for_tokens(Maker& maker, const data::TokenSource& texts,
                    const TextOptions& options, const std::string& folder) {
  Activity::Stretch making("tokenizing");
  making.expect(texts.num_bytes());
  int64_t read = 0, written = 0;
  bool is_room_known = false;
  const auto on_news = [&](const json& news) {
    const auto more = news.value("read", int64_t{0});
    read += more;
    written += news.value("written", int64_t{0});
    if (!is_room_known && written > 0) {
      require_room(folder, read, written, texts.num_bytes());
      is_room_known = true;
    }
    sign_unless_stopped(more);
  };
  json wanted = {{"files", texts.paths()},
                 {"out", folder + "/tokens.tok"},
                 {"separator", maker.look.at("ids")},
                 {"text_key", options.text_key},
                 {"below", options.vocab > 0 ? options.vocab : kNoVocab}};
  if (!maker.makes_examples()) return maker.child.ask({{"tokenize", wanted}}, on_news);
  wanted.update(manner_of(options));
  return maker.child.ask({{"exemplify", wanted}}, on_news);
}

void require_access(const std::string& cache, int rights) {
  if (::faccessat(AT_FDCWD, cache.c_str(), rights, AT_EACCESS) == 0) return;
  refuse_cache(cache, std::strerror(errno));
}

void make(Maker& maker, const data::TokenSource& texts, const TextOptions& options,
          const Folder& cache, const std::string& key, const std::string& stamp) {
  require_access(cache.path(), W_OK | X_OK);
  checkpoint::OwnFolder part(cache.path(), checkpoint::temporary_name(kWhat));
  const Folder& folder = part.folder();
  ::flock(folder.descriptor(), LOCK_EX | LOCK_NB);
  json about = ask_for_tokens(maker, texts, options, part.path());
  about.update({{"separator", maker.look.at("word")},
                {"separator_shown", maker.look.at("shown")},
                {"examples", maker.makes_examples()},
                {"texts", texts.paths()}});
  for (json& file : about.at("files"))
    file = json::array({file, folder.size_of(file.get<std::string>())});
  checkpoint::write_text(folder, kAbout, about.dump(2) + "\n", checkpoint::system_io());
  folder.sync(checkpoint::system_io());
  if (stamp_of(texts, options) != stamp)
    throw data::DataError("a text or its tokenizer changed while it was read",
                          texts.paths().front(), "the same command again");
  if (cache.has(key)) return;  // another host was faster
  checkpoint::rename_ours(cache, checkpoint::split_path(part.path()).name, key,
                          checkpoint::system_io());
  part.keep();
}

void refuse_damaged(const Folder& cache, const std::string& key) {
  if (!cache.has(key)) return;
  throw CheckpointError(cache.path_of(key), "", "these are no tokens of texts",
                        "move it away, or another --token-cache");
}

// They are sent as JSON.
void require_utf8(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (!is_utf8(path))
      throw data::DataError("the name of a file is not valid UTF-8", path, "rename it");
}

Folder open_cache(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse_cache(path, error.message());
  require_access(path, R_OK | X_OK);
  return Folder(path);
}

}  // namespace

TokenizedText tokenize(const data::TokenSource& texts, const TextOptions& options) {
  require_utf8(texts.paths());
  const Folder cache = open_cache(options.cache);
  const std::string stamp = stamp_of(texts, options);
  if (auto seen = find_seen(cache, stamp)) return *seen;
  lock(cache);
  remove_left_behind(cache);
  Maker maker(texts, options);
  const std::string key = key_of(texts, options, maker.look);
  auto found = read_entry(cache, key);
  const bool is_new = !found;
  if (is_new) {
    refuse_damaged(cache, key);
    make(maker, texts, options, cache, key, stamp);
    found = read_entry(cache, key);
  }
  if (!found) refuse_damaged(cache, key);
  try {
    checkpoint::replace_text(cache, stamp, key, "");
  } catch (const CheckpointError&) {  // the next start asks the tokenizer again
  }
  found->is_new = is_new;
  return *found;
}

json manner_of(const TextOptions& options) {
  return {{"train_on", options.train_on},
          {"end_of_turn", options.end_of_turn},
          {"special", options.special},
          {"date", options.date}};
}

std::string describe(const TokenizedText& text) {
  const std::string folder = checkpoint::split_path(text.paths.at(0)).folder;
  const std::string end = text.is_new ? "" : ", made before";
  const char* plural = text.num_documents == 1 ? "" : "s";
  if (text.are_examples)
    return fmt::format(
        "{} tokens of {} example{} ({}): {}{}", fmt::group_digits(text.num_tokens),
        fmt::group_digits(text.num_documents), plural, text.shapes, folder, end);
  return fmt::format(
      "{} tokens of {} text{}, separator {}: {}{}", fmt::group_digits(text.num_tokens),
      fmt::group_digits(text.num_documents), plural, text.separator_shown, folder, end);
}

TokenizedText tokenize(const data::TokenSource& texts, const TextOptions& options,
                       bool is_first_of_host, Ranks& ranks) {
  std::optional<TokenizedText> mine;
  Agreement(ranks, "tokens").run([&] {
    if (is_first_of_host) mine = tokenize(texts, options);
  });
  // Each rank reads what is told of them where it lies.
  const json first = json::parse(ranks.broadcast(
      mine
          ? json({options.cache,
                  checkpoint::split_path(checkpoint::split_path(mine->paths.at(0)).folder)
                      .name,
                  mine->is_new})
                .dump()
          : ""));
  const std::string key = first[1];
  auto found = read_entry(Folder(options.cache), key);
  if (!found || (mine && mine->paths != found->paths))
    throw Error(ExitCode::kData,
                fmt::format("the texts on host {} are not rank 0's", host_name()),
                texts.where(), "the same files on every host");
  found->is_new = first[2];
  return *found;
}

}  // namespace zero::launcher

#include "launcher/inference/text_records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/log_files.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

constexpr char kBegin[] = R"({"line":)";  // of each record

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitCode::kUsage, what, path, "--to FILE: another one");
}

TextRecords::Place place_of(const json& record) {
  return {record.at("line").get<int64_t>(), record.at("sample").get<int64_t>()};
}

MadeWith made_with(const json& record) {
  const json& of = record.at("of");
  return {of.at("model"), of.at("settings")};
}

void require_same(const std::string& path, const json& record,
                  const std::vector<PromptLine>& prompts, const MadeWith& with) {
  const MadeWith found = made_with(record);
  const int64_t line = place_of(record).first;
  if (found.model != with.model) refuse(path, "it has texts of another model");
  if (found.settings != with.settings)
    refuse(path, "it has texts that were made with other settings");
  const auto prompt = std::ranges::lower_bound(prompts, line, {}, &PromptLine::line);
  if (prompt == prompts.end() || prompt->line != line ||
      record.at("prompt") != json(prompt->asked))
    refuse(path, fmt::format("it has a text of another prompt in line {}", line));
  if (record.at("of").at("tokens") != json(prompt->tokens_hash))
    throw Error(ExitCode::kUsage,
                fmt::format("the prompt in line {} has other tokens now, or other ends "
                            "of its texts",
                            line),
                path,
                "--chat-date YYYY-MM-DD, when the file was begun, if the chat template "
                "tells the day; or --to FILE: another one");
}

}  // namespace

std::string to_record(const MadeText& made, const PromptLine& prompt,
                      const MadeWith& with) {
  const TextEnd& end = made.text.end;
  nlohmann::ordered_json record = {
      {"line", made.line},      {"sample", made.sample}, {"prompt", prompt.asked},
      {"text", made.text.text}, {"tokens", end.tokens},  {"finish", to_text(end.finish)}};
  if (end.log_probs) record["log_probs"] = *end.log_probs;
  record["tokens_per_second"] = std::round(made.tokens_per_second * 10) / 10;
  record["of"] = {
      {"model", with.model}, {"settings", with.settings}, {"tokens", prompt.tokens_hash}};
  return json_text(record);
}

TextRecords::TextRecords(const std::string& path, const std::vector<PromptLine>& prompts,
                         const MadeWith& with)
    : path_(path) {
  if (path.empty()) return;
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) refuse(path, "it is no regular file");
    if (access(path.c_str(), W_OK) != 0)
      refuse(path, std::string("it cannot be written: ") + std::strerror(errno));
    lock();
    read_file(prompts, with);
  }
  make_file();
  lock();
  file_ = std::make_unique<AppendFile>(path, kBegin, "\n", "no more texts are made");
}

TextRecords::~TextRecords() = default;

void TextRecords::keep(const std::string& record, const std::vector<PromptLine>& prompts,
                       const MadeWith& with) {
  try {
    const json read = json::parse(record);
    require_same(path_, read, prompts, with);
    as_they_lie_.push_back(place_of(read));
  } catch (const json::exception&) {
    refuse(path_, "it is there already, and holds something else than such records");
  }
  records_[as_they_lie_.back()] = record;
}

// Whether it can be written is known before anything is made.
void TextRecords::make_file() const {
  const auto [above, name] = checkpoint::split_path(path_);
  try {
    const checkpoint::Folder folder(above);
    if (!folder.has(name))
      checkpoint::write_text(folder, name, "", checkpoint::system_io());
  } catch (const checkpoint::CheckpointError& error) {
    refuse(path_, error.problem());
  }
}

// Another process that writes the file would replace ours, or be replaced. Its lock goes
// with a file that was put in order; a file system without locks has none.
void TextRecords::lock() {
  struct stat of_path = {}, of_lock = {};
  do {
    lock_.emplace(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (*lock_ < 0) refuse(path_, "it cannot be read");
    if (::flock(*lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      refuse(path_, "another process writes it");
  } while (::stat(path_.c_str(), &of_path) == 0 && ::fstat(*lock_, &of_lock) == 0 &&
           of_path.st_ino != of_lock.st_ino);
}

// A last line that is no whole record was being written when its process ended.
void TextRecords::read_file(const std::vector<PromptLine>& prompts,
                            const MadeWith& with) {
  std::ifstream file(path_, std::ios::binary);
  std::ostringstream whole;
  if (!file || (file.peek() != EOF && !(whole << file.rdbuf())))
    refuse(path_, "it cannot be read");
  const std::string text = whole.str();
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    keep(text.substr(begin, end - begin), prompts, with);
  const std::string last = text.substr(begin);
  if (last.empty()) return;
  const bool is_cut_off = (last.starts_with(kBegin) && !json::accept(last)) ||
                          std::string_view(kBegin).starts_with(last);
  if (!is_cut_off) keep(last, prompts, with);
  write_in_order(std::string_view(text).substr(0, std::strlen(kBegin)));
}

// `begin`: of the file, which may have less than a record's.
void TextRecords::write_in_order(std::string_view begin) const {
  std::string all;
  for (const auto& [place, record] : records_) all += record + '\n';
  checkpoint::replace_text(path_, all, begin);
}

void TextRecords::add(const std::vector<std::string>& records) {
  for (const std::string& record : records) {
    const Place place = place_of(json::parse(record));
    records_[place] = record;
    if (!file_) continue;
    if (!file_->append(record))
      throw Error(ExitCode::kCheckpoint, "a text cannot be written", path_,
                  "room on the disk; the same command goes on");
    as_they_lie_.push_back(place);
  }
}

void TextRecords::finish() {
  if (!file_) {
    for (const auto& [place, record] : records_) print_text(record + '\n', "the texts");
    return;
  }
  const bool is_in_order = std::ranges::is_sorted(as_they_lie_);
  if (!is_in_order) write_in_order(kBegin);
}

}  // namespace zero::launcher

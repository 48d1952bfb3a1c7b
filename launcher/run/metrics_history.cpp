#include "launcher/run/metrics_history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "checkpoint/ranges.h"
#include "launcher/run/console.h"
#include "launcher/run/metrics.h"
#include "launcher/settings/shallow_json.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// {} for what is no record: it stays as it is.
json record_of(const std::string& line) {
  json record = parse_shallow(line);
  return record.is_object() ? record : json::object();
}

int64_t integer(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

std::string type_of(const json& record) { return text_in(record, "type"); }

// Of the save of that state: "saving" where it was asked for, "save" where it was there,
// which may be some steps later.
bool tells_of(const json& record, const char* type, int64_t step, int64_t num_batches) {
  return type_of(record) == type && integer(record, "step") == step &&
         integer(record, "batches") == num_batches;
}

// Each of ours has the time of day, but one that tells of lost lines.
bool is_ours(const json& record) {
  const auto wall = record.find("wall");
  return (wall != record.end() && wall->is_number()) ||
         (type_of(record) == "gap" && integer(record, "lost") > 0);
}

// Whether a record tells what will be done again. An evaluation or a sample after the
// last save was one of the saved state.
bool is_redone(const json& record, int64_t step, bool is_behind_save) {
  if (!is_ours(record)) return false;
  const std::string type = type_of(record);
  const bool is_of_later_step = integer(record, "step") > step;
  if (type == "eval" || type == "sample" || type == "masters") return is_of_later_step;
  if (type == "step" || type == "saving" || type == "save" || type == "save_failed")
    return is_of_later_step || is_behind_save;
  return type == "gap" && is_behind_save;
}

// What a kill has left of one of our lines.
bool is_torn_record(const std::string& line) {
  const std::string_view begin = kRecordBegin;
  return line.starts_with(begin) || begin.starts_with(line);
}

bool is_torn_row(const std::string& line) {
  return line.find_first_not_of("0123456789") == line.find(',');
}

enum class Fate { kStays, kGoes, kEnough };  // enough: this line and all before stay

// A log that is cut from its end. Whatever fails leaves it as it was, or with some of the
// lines that should go, which the next resume finds again.
class Log {
 public:
  explicit Log(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)) {
    const int error = descriptor_ < 0 ? errno : 0;
    struct stat status {};
    const bool is_file =
        descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (is_file) size_ = status.st_size;
    if (!is_file && error != ENOENT) tell("it is no file that can be changed");
  }

  // Lines from the last one on, until `goes_on` says no. A torn one, which cut() takes
  // away, tells nothing.
  template <class Look>
  void look(Look goes_on) const {
    LinesFromEnd lines(descriptor_, size_);
    auto line = lines.next();
    while (line && (line->is_torn || goes_on(line->text))) line = lines.next();
  }

  // `judge` says of each line, the last one first, what becomes of it. A torn one goes if
  // it `is_ours`. Returns the number of lines that went.
  template <class Judge>
  int64_t cut(bool (*is_ours)(const std::string&), Judge judge) {
    int64_t num_cut = 0, first_cut = size_;
    std::vector<std::string> kept;  // the last one first
    size_t num_behind = 0;          // of those, behind the first line that goes
    LinesFromEnd lines(descriptor_, size_);
    for (auto line = lines.next(); line; line = lines.next()) {
      const Fate fate =
          line->is_torn && is_ours(line->text) ? Fate::kGoes : judge(line->text);
      if (fate == Fate::kEnough) break;
      if (fate == Fate::kStays) {
        kept.push_back(line->text + (line->is_torn ? "" : "\n"));
        continue;
      }
      num_cut += !line->is_torn;
      first_cut = line->begin;
      num_behind = kept.size();
    }
    if (lines.error() != 0) {
      tell(std::strerror(lines.error()));
      return 0;
    }
    kept.resize(num_behind);
    if (first_cut < size_) rewrite(first_cut, kept);
    return num_cut;
  }

 private:
  // To cut is one step. Lines that stay behind others that go move in a copy, which takes
  // the log's name when it is whole.
  void rewrite(int64_t begin, const std::vector<std::string>& kept) const {
    std::string text;
    for (auto line = kept.rbegin(); line != kept.rend(); ++line) text += *line;
    if (text.empty()) {
      if (::ftruncate(descriptor_, begin) != 0) tell(std::strerror(errno));
      return;
    }
    try {
      write_anew(begin, text);
    } catch (const std::exception& error) {
      tell(error.what());
    }
  }

  void write_anew(int64_t begin, const std::string& text) const {
    const auto [above, name] = checkpoint::split_path(std::filesystem::canonical(path_));
    const checkpoint::Folder folder(above);
    checkpoint::Io& io = checkpoint::system_io();
    const auto write = [&](checkpoint::File& file) {
      checkpoint::copy_ranges(folder.open(name), {{0, begin}}, &file, io);
      file.write(text.data(), text.size(), begin, io);
      struct stat old {};
      if (::fstat(descriptor_, &old) != 0 ||
          ::fchmod(file.descriptor(), old.st_mode) != 0)
        throw_errno(file.path(), "give it the log's mode", errno);
    };
    checkpoint::replace_file(folder, name, "", write, io);
  }

  void tell(const std::string& why) const {
    warn(fmt::format("the records of steps to be done again stay in {}: {}", path_, why));
  }

  const std::string path_;
  const Descriptor descriptor_;
  int64_t size_ = 0;
};

// No save of `step` is told about before an earlier step.
bool is_of_earlier_step(const json& record, int64_t step) {
  return type_of(record) == "step" && integer(record, "step") < step;
}

int64_t cut_jsonl(const std::string& path, int64_t step, int64_t num_batches) {
  Log log(path);
  const auto is = [&](const char* type, const json& record) {
    return tells_of(record, type, step, num_batches);
  };
  // The first that is found of these ends what may go; older logs have no "saving".
  bool has_begin = false, has_save = false;
  log.look([&](const std::string& line) {
    const json record = record_of(line);
    has_begin = is("saving", record);
    has_save = has_save || is("save", record);
    return !has_begin && !is_of_earlier_step(record, step);
  });
  const char* last = has_begin ? "saving" : "save";
  return log.cut(is_torn_record, [&](const std::string& line) {
    const json record = record_of(line);
    const bool is_enough =
        has_begin || has_save ? is(last, record) : is_of_earlier_step(record, step + 1);
    if (is_enough) return Fate::kEnough;
    const bool goes = is_redone(record, step, has_begin || has_save);
    return goes && !is("save", record) ? Fate::kGoes : Fate::kStays;
  });
}

int64_t cut_csv(const std::string& path, int64_t step) {
  if (!is_csv_of_ours(path)) return 0;
  return Log(path).cut(is_torn_row, [&](const std::string& row) {
    const auto number = parse_integer(row.substr(0, row.find(',')));
    if (!number) return Fate::kStays;
    return *number > step ? Fate::kGoes : Fate::kEnough;
  });
}

}  // namespace

LinesFromEnd::LinesFromEnd(int descriptor, int64_t size)
    : descriptor_(descriptor), begin_(size) {}

// Another block before what is there; false: there is none.
bool LinesFromEnd::read_more() {
  constexpr int64_t kBlockBytes = 64 << 10;
  const int64_t bytes = std::min(begin_, kBlockBytes);
  std::string block(static_cast<size_t>(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count =
        ::pread(descriptor_, block.data() + done, static_cast<size_t>(bytes - done),
                begin_ - bytes + done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error_ = count < 0 ? errno : EIO;  // it has become shorter
      return false;
    }
    done += count;
  }
  begin_ -= bytes;
  buffer_.insert(0, block);
  return bytes > 0;
}

std::optional<LinesFromEnd::Line> LinesFromEnd::next() {
  if (buffer_.empty() && !read_more()) return std::nullopt;
  const bool is_torn = is_first_ && buffer_.back() != '\n';
  is_first_ = false;
  if (!is_torn) buffer_.pop_back();
  size_t end_of_previous = buffer_.rfind('\n');
  while (end_of_previous == std::string::npos) {
    const size_t searched = buffer_.size();
    if (!read_more()) break;
    end_of_previous = buffer_.rfind('\n', buffer_.size() - searched - 1);
  }
  const size_t begin = end_of_previous == std::string::npos ? 0 : end_of_previous + 1;
  Line line{begin_ + static_cast<int64_t>(begin), is_torn, buffer_.substr(begin)};
  buffer_.resize(begin);
  return line;
}

int64_t cut_metrics(const std::string& folder, int64_t step, int64_t num_batches) {
  cut_csv(folder + "/metrics.csv", step);
  return cut_jsonl(folder + "/metrics.jsonl", step, num_batches);
}

std::vector<std::string> set_metrics_aside(const std::string& folder) {
  bool is_worth_it = false;
  const std::string log = folder + "/metrics.jsonl";
  Log(log).look([&](const std::string& line) {
    const json record = record_of(line);
    is_worth_it =
        is_ours(record) && (type_of(record) == "save" || type_of(record) == "end");
    return !is_worth_it;
  });
  std::vector<std::string> names;
  if (!is_worth_it) return names;
  try {
    const checkpoint::Folder open(folder);
    names.push_back(checkpoint::set_file_aside(open, "metrics.jsonl"));
    if (is_csv_of_ours(folder + "/metrics.csv"))
      names.push_back(checkpoint::set_file_aside(open, "metrics.csv"));
  } catch (const checkpoint::CheckpointError& error) {
    throw Error(ExitCode::kCheckpoint,
                "the metrics of an earlier run cannot be kept: " + error.problem(),
                error.file(), "move them away, or another --out");
  }
  return names;
}

bool has_end_record(const std::string& folder, int64_t step) {
  bool has_ended = false;
  Log(folder + "/metrics.jsonl").look([&](const std::string& line) {
    const json record = record_of(line);
    const bool is_end = type_of(record) == "end";
    has_ended = is_end && integer(record, "step") == step;
    return !is_end && type_of(record) != "step";
  });
  return has_ended;
}

double last_save_seconds(const std::string& folder) {
  double seconds = -1;
  Log(folder + "/metrics.jsonl").look([&](const std::string& line) {
    const json record = record_of(line);
    if (type_of(record) != "save" || !is_ours(record)) return true;
    const auto found = record.find("seconds");
    if (found != record.end() && found->is_number()) seconds = found->get<double>();
    return false;
  });
  return seconds;
}

}  // namespace zero::launcher

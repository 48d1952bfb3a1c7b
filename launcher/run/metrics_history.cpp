#include "launcher/run/metrics_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// Complete lines; a last one without an end was torn by a crash.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

// {} for what is no record: it stays as it is.
json record_of(const std::string& line) {
  json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return record.is_object() ? record : json::object();
}

int64_t integer(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

std::string type_of(const json& record) {
  const auto found = record.find("type");
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_save_of(const json& record, int64_t step, int64_t num_batches) {
  return type_of(record) == "save" && integer(record, "step") == step &&
         integer(record, "batches") == num_batches;
}

// Whether a record tells what will be done again. An evaluation after the last save was
// one of the saved state.
bool is_redone(const json& record, int64_t step, bool is_behind_save) {
  const std::string type = type_of(record);
  const bool is_of_later_step = integer(record, "step") > step;
  if (type == "eval") return is_of_later_step;
  if (type == "step" || type == "save") return is_of_later_step || is_behind_save;
  return type == "gap" && is_behind_save;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const std::string& folder, const std::string& name,
             const std::string& text) {
  auto& io = checkpoint::system_io();
  const checkpoint::Folder opened(folder);
  const std::string temporary = checkpoint::temporary_name(name);
  checkpoint::write_text(opened, temporary, text, io);
  if (io.rename(opened.descriptor(), temporary.c_str(), name.c_str()) != 0)
    checkpoint::throw_errno(opened.path_of(name), "replace", errno);
}

int64_t replace_if_changed(const std::string& folder, const std::string& name,
                           const std::string& before, const std::string& after) {
  if (before == after) return 0;
  try {
    replace(folder, name, after);
  } catch (const checkpoint::CheckpointError& error) {
    warn(fmt::format("the records of steps to be done again stay: {}", error.what()));
    return 0;
  }
  return std::ranges::count(before, '\n') - std::ranges::count(after, '\n');
}

}  // namespace

std::string cut_jsonl(const std::string& text, int64_t step, int64_t num_batches) {
  const std::vector<std::string> lines = lines_of(text);
  std::vector<json> records;
  for (const std::string& line : lines) records.push_back(record_of(line));
  const auto is_save = [&](const json& r) { return is_save_of(r, step, num_batches); };
  const auto last_save = std::find_if(records.rbegin(), records.rend(), is_save);
  const bool is_known = last_save != records.rend();
  const auto num_before = static_cast<size_t>(records.rend() - last_save);
  std::string kept;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_behind_save = is_known && i >= num_before;
    if (!is_redone(records[i], step, is_behind_save)) kept += lines[i] + '\n';
  }
  return kept;
}

std::string cut_csv(const std::string& text, int64_t step) {
  std::string kept;
  for (const std::string& line : lines_of(text)) {
    const auto number = parse_integer(line.substr(0, line.find(',')));
    if (!number || *number <= step) kept += line + '\n';
  }
  return kept;
}

int64_t cut_metrics(const std::string& folder, int64_t step, int64_t num_batches) {
  const std::string jsonl = read(folder + "/metrics.jsonl");
  const std::string csv = read(folder + "/metrics.csv");
  replace_if_changed(folder, "metrics.csv", csv, cut_csv(csv, step));
  return replace_if_changed(folder, "metrics.jsonl", jsonl,
                            cut_jsonl(jsonl, step, num_batches));
}

}  // namespace zero::launcher

// A log of metrics, cut back to step 4.
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/run/metrics.h"
#include "launcher/run/metrics_history.h"
#include "tests/fuzz/target.h"
#include "tests/launcher/settings/configs.h"

namespace zero::fuzz::metrics {
namespace {

using Lines = std::vector<std::string>;
using nlohmann::json;

constexpr int64_t kStep = 4, kBatches = 4;
const std::string kColumns = "step,loss,eval_loss,eval_ppl\n";

struct Cut {
  std::string jsonl, csv;
  bool operator==(const Cut&) const = default;
};

Cut cut(const Cut& before) {
  static const launcher::TempFolder folder;
  folder.write("metrics.jsonl", before.jsonl);
  folder.write("metrics.csv", before.csv);
  launcher::has_end_record(folder.path(""), kStep);
  launcher::cut_metrics(folder.path(""), kStep, kBatches);
  return {folder.read("metrics.jsonl"), folder.read("metrics.csv")};
}

// Those that end.
Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool are_some_of(const Lines& some, const Lines& all) {
  auto next = some.begin();
  for (const std::string& line : all) next += next != some.end() && *next == line;
  return next == some.end();
}

std::string torn_line_of(const std::string& text) {
  return text.substr(text.rfind('\n') + 1);
}

void claim_some_are_left(const std::string& after, const std::string& before) {
  const std::string torn = torn_line_of(after);
  claim(torn.empty() || torn == torn_line_of(before), "no line is torn anew");
  claim(are_some_of(lines_of(after), lines_of(before)), "no line is changed");
}

// A record of this type and step, whatever else it tells.
bool is_record(const std::string& line, const char* type, int64_t lowest) {
  const json record = json::parse(line, nullptr, false);
  if (!record.is_object() || record.value("type", json()) != type) return false;
  const json step = record.value("step", json());
  return step.is_number_integer() && step >= lowest && step <= kStep;
}

int64_t num_records(const std::string& text, const char* type, int64_t lowest) {
  int64_t count = 0;
  for (const std::string& line : lines_of(text)) count += is_record(line, type, lowest);
  return count;
}

void claim_steps_stay_without_save(const std::string& after, const std::string& before) {
  if (num_records(before, "save", kStep) > 0) return;
  claim(num_records(after, "step", 0) == num_records(before, "step", 0),
        "without the save's record, only those of later steps go");
}

// So that the seam between the blocks that a log is read in is among these bytes.
void claim_blocks_do_not_matter(const Cut& before, const Cut& after) {
  if (!before.jsonl.ends_with('\n') || before.jsonl.size() > 65536) return;
  const std::string wide(65536 - before.jsonl.size() / 2, 'x');
  claim(cut({before.jsonl + wide + '\n', ""}).jsonl == after.jsonl + wide + '\n',
        "lines that stay behind a log change nothing");
}

}  // namespace

void target(const std::string& text) {
  const Cut before = {text, kColumns + text}, after = cut(before);
  claim(cut({"", text}).csv == text || text.starts_with("step,"), "others' tables stay");
  claim_some_are_left(after.jsonl, before.jsonl);
  claim_some_are_left(after.csv, before.csv);
  claim(!torn_line_of(after.jsonl).starts_with(launcher::kRecordBegin),
        "no torn record of ours is left");
  claim(cut(after) == after, "there is nothing more to cut");
  claim_steps_stay_without_save(after.jsonl, before.jsonl);
  claim_blocks_do_not_matter(before, after);
}

}  // namespace zero::fuzz::metrics

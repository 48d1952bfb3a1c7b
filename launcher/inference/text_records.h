#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "launcher/inference/generate.h"
#include "launcher/inference/prompt_file.h"

// The records of texts that were made of prompts: JSONL.
namespace zero::launcher {

class AppendFile;

// What records are of; those of another model or of other settings are not mixed.
struct MadeWith {
  std::string model, settings;  // hashes
};

struct MadeText {
  int64_t line = 0, sample = 0;
  GeneratedText text = {};
  double tokens_per_second = 0;
};

// A line, without its end.
std::string to_record(const MadeText& made, const PromptLine& prompt,
                      const MadeWith& with);

// Where records go, by prompt and sample in order: to a file, or to standard output.
//
// A file has a record as soon as it was made, and is put in order at the end. One that is
// there is gone on with: its records are kept. It is refused with Error(kUsage), and
// stays as it is, if one of them was made with something else, or of another prompt, or
// while another process writes it.
class TextRecords {
 public:
  using Place = std::pair<int64_t, int64_t>;  // line, sample

  // `path`: "" is standard output.
  TextRecords(const std::string& path, const std::vector<PromptLine>& prompts,
              const MadeWith& with);
  ~TextRecords();

  bool has(const Place& place) const { return records_.contains(place); }
  // Throws Error(kCheckpoint) where they cannot be written.
  void add(const std::vector<std::string>& records);
  // No more come.
  void finish();

 private:
  void read_file(const std::vector<PromptLine>& prompts, const MadeWith& with);
  void keep(const std::string& record, const std::vector<PromptLine>& prompts,
            const MadeWith& with);
  void write_in_order(std::string_view begin) const;
  void make_file() const;
  void lock();

  const std::string path_;
  std::map<Place, std::string> records_;
  std::vector<Place> as_they_lie_;  // in the file
  std::unique_ptr<AppendFile> file_;
  std::optional<Descriptor> lock_;
};

}  // namespace zero::launcher

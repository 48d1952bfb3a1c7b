#include "launcher/run/dump_state.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "zero/engine.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> in_hex(std::span<const double> values) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(fmt::format("{:a}", value));
  return texts;
}

// How each file of values begins, and each index and list of first values.
constexpr std::string_view kValuesBegin = "zero fp32 state\n";
constexpr char kIndexBegin[] = "{\n \"rank\": ";
constexpr char kInitReportBegin[] = "[\n {\n  \"fqn\": \"";  // of any parameter

// What is appended to a file.
class Values {
 public:
  explicit Values(checkpoint::File& file) : file_(file) {
    append(kValuesBegin.data(), kValuesBegin.size());
  }
  // Returns the offset where they begin.
  int64_t append(const StoredValues& stored) {
    const std::vector<float> values = stored.read_all();
    const int64_t begin = end_;
    append(values.data(), values.size() * sizeof(float));
    return begin;
  }

 private:
  void append(const void* data, size_t bytes) {
    file_.write(data, bytes, end_, checkpoint::system_io());
    end_ += static_cast<int64_t>(bytes);
  }

  checkpoint::File& file_;
  int64_t end_ = 0;
};

Json write_shard(Values& values, const ShardView& shard) {
  Json json = {{"fqn", shard.fqn},
               {"shape", shard.shape},
               {"begin", shard.begin},
               {"numel", shard.master.size()},
               {"frozen", shard.frozen},
               {"aliases", shard.aliases},
               {"master", values.append(shard.master)}};
  for (const StateView& state : shard.state)
    json[state.name] = values.append(state.values);
  return json;
}

void write_state(const checkpoint::Folder& folder, Engine& engine,
                 std::span<const double> losses) {
  const std::string name = fmt::format("rank_{:05}", engine.rank());
  Json json = {{"rank", engine.rank()},
               {"size", engine.size()},
               {"step", engine.num_steps()},
               {"losses", in_hex(losses)},
               {"parameters", Json::array()}};

  checkpoint::replace_file(folder, name + ".bin", kValuesBegin,
                           [&](checkpoint::File& file) {
                             Values values(file);
                             for (const ShardView& shard : engine.shards())
                               json["parameters"].push_back(write_shard(values, shard));
                           });
  checkpoint::replace_text(folder, name + ".json", json.dump(1) + "\n", kIndexBegin);
}

}  // namespace

void dump_state(const std::string& folder, Engine& engine,
                std::span<const double> losses) try {
  std::filesystem::create_directories(folder);
  write_state(checkpoint::Folder(folder), engine, losses);
} catch (const checkpoint::CheckpointError& error) {
  throw Error(ExitCode::kCheckpoint, error.problem(), error.file(),
              "another folder for --dump-state");
} catch (const std::filesystem::filesystem_error& error) {
  throw Error(ExitCode::kCheckpoint, "cannot make the folder: " + error.code().message(),
              folder, "another folder for --dump-state");
}

void write_init_report(const std::string& path, const std::vector<InitEntry>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const InitEntry& entry : entries) {
    nlohmann::ordered_json item = {
        {"fqn", entry.fqn},     {"kind", entry.is_buffer ? "buffer" : "param"},
        {"who", entry.who},     {"distribution", entry.distribution},
        {"numel", entry.numel}, {"mean", entry.mean},
        {"std", entry.std},     {"checksum", fmt::format("{:016x}", entry.checksum)}};
    if (entry.num_infinite > 0) item["infinite"] = entry.num_infinite;
    list.push_back(std::move(item));
  }
  try {
    checkpoint::replace_text(path, list.dump(1) + "\n", kInitReportBegin);
  } catch (const checkpoint::CheckpointError& error) {
    throw Error(ExitCode::kCheckpoint,
                "the report of first values cannot be written: " + error.problem(), path,
                "--init-report FILE: a new one in a folder that is there, with room");
  }
}

}  // namespace zero::launcher

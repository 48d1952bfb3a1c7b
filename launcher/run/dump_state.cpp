#include "launcher/run/dump_state.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/error.h"
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

// Append values; returns the offset where they begin.
int64_t write_values(std::ofstream& file, const StoredValues& stored) {
  const std::vector<float> values = stored.read_all();
  const int64_t offset = file.tellp();
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  return offset;
}

Json write_shard(std::ofstream& file, const ShardView& shard) {
  Json json = {{"fqn", shard.fqn},
               {"shape", shard.shape},
               {"begin", shard.begin},
               {"numel", shard.master.size()},
               {"frozen", shard.frozen},
               {"aliases", shard.aliases},
               {"master", write_values(file, shard.master)}};
  for (const StateView& state : shard.state)
    json[state.name] = write_values(file, state.values);
  return json;
}

void check_written(std::ofstream& file, const std::string& path) {
  file.close();
  if (!file) {
    throw Error(ExitCode::kCheckpoint,
                fmt::format("cannot write: {}", std::strerror(errno)), path,
                "another folder for --dump-state");
  }
}

}  // namespace

void dump_state(const std::string& folder, Engine& engine,
                std::span<const double> losses) {
  std::filesystem::create_directories(folder);
  const std::string path = fmt::format("{}/rank_{:05}", folder, engine.rank());
  Json json = {{"rank", engine.rank()},
               {"size", engine.size()},
               {"step", engine.num_steps()},
               {"losses", in_hex(losses)},
               {"parameters", Json::array()}};

  std::ofstream values(path + ".bin", std::ios::binary | std::ios::trunc);
  for (const ShardView& shard : engine.shards())
    json["parameters"].push_back(write_shard(values, shard));
  check_written(values, path + ".bin");
  std::ofstream index(path + ".json", std::ios::trunc);
  index << json.dump(1) << '\n';
  check_written(index, path + ".json");
}

// Of the list of a model with any parameter.
constexpr char kInitReportBegin[] = "[\n {\n  \"fqn\": \"";

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
    throw Error(ExitCode::kEnvironment,
                "the report of first values cannot be written: " + error.problem(), path,
                "--init-report FILE: a new one in a folder that is there, with room");
  }
}

}  // namespace zero::launcher

#include "checkpoint/shard_report.h"

#include "checkpoint/hash.h"
#include "checkpoint/piece_json.h"

namespace zero::checkpoint {
namespace {

SliceReport slice_from(const nlohmann::json& json) {
  Fields fields(json, "shard report", "a slice");
  SliceReport slice;
  slice.kind = kind_field(fields, "kind");
  slice.fqn = fields.text("fqn");
  slice.shape = shape_field(fields, "shape");
  slice.dtype = dtype_field(fields, "dtype");
  slice.begin = fields.integer("begin", 0, INT64_MAX);
  slice.numel = fields.integer("numel", 0, INT64_MAX / size_of(slice.dtype));
  slice.offset = fields.integer("offset", -1, INT64_MAX);
  slice.hashes = hashes_field(fields, "xxh3");
  fields.done();
  return slice;
}

}  // namespace

std::string to_text(const ShardReport& report) {
  nlohmann::json slices = nlohmann::json::array();
  for (const auto& slice : report.slices) {
    slices.push_back({{"kind", name_of(slice.kind)},
                      {"fqn", slice.fqn},
                      {"shape", slice.shape},
                      {"dtype", name_of(slice.dtype)},
                      {"begin", slice.begin},
                      {"numel", slice.numel},
                      {"offset", slice.offset},
                      {"xxh3", to_hex(slice.hashes)}});
  }
  return nlohmann::json{{"rank", report.rank},
                        {"world_size", report.world_size},
                        {"bytes", report.bytes},
                        {"layout_xxh3", to_hex(report.layout_hash)},
                        {"slices", std::move(slices)}}
      .dump();
}

ShardReport parse_report(std::string_view text) {
  const auto json = parse_strictly(text, "shard report");
  Fields fields(json, "shard report", "");
  ShardReport report;
  report.rank = static_cast<int>(fields.integer("rank", 0, kMaxWorldSize - 1));
  report.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  report.bytes = fields.integer("bytes", 0, INT64_MAX);
  report.layout_hash = hash_field(fields, "layout_xxh3");
  for (const auto& slice : fields.array("slices")) {
    report.slices.push_back(slice_from(slice));
  }
  fields.done();
  return report;
}

}  // namespace zero::checkpoint

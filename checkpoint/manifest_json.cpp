#include "checkpoint/error.h"
#include "checkpoint/hash.h"
#include "checkpoint/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece_json.h"

// The text is one JSON object whose last field is the hash of all bytes before it:
//   {"format":"zero checkpoint", ... ,"xxh3":"0123456789abcdef"}\n
namespace zero::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kFormatName[] = "zero checkpoint";
constexpr std::string_view kHashKey = ",\"xxh3\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr size_t kTailBytes = kHashKey.size() + 16 + kEnd.size();

std::string tail_for(std::string_view body) {
  return std::string(kHashKey) + to_hex(hash_of(body.data(), body.size())) +
         std::string(kEnd);
}

OrderedJson to_json(const FileEntry& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", to_hex(file.hash)}};
}

OrderedJson to_json(const TensorEntry& tensor) {
  OrderedJson pieces = OrderedJson::array();
  for (const auto& piece : tensor.pieces) {
    pieces.push_back({{"file", piece.file},
                      {"begin", piece.begin},
                      {"offset", piece.offset},
                      {"bytes", piece.bytes},
                      {"xxh3", to_hex(piece.hashes)}});
  }
  return {{"kind", name_of(tensor.kind)},
          {"fqn", tensor.fqn},
          {"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape},
          {"pieces", std::move(pieces)}};
}

FileEntry file_from(const nlohmann::json& json, const std::string& file,
                    const std::string& place) {
  Fields fields(json, file, place);
  FileEntry entry;
  entry.name = fields.text("name");
  entry.bytes = fields.integer("bytes", 0, INT64_MAX);
  entry.hash = hash_field(fields, "xxh3");
  fields.done();
  return entry;
}

Piece piece_from(const nlohmann::json& json, const std::string& file,
                 const std::string& place) {
  Fields fields(json, file, place);
  Piece piece;
  piece.file = fields.text("file");
  piece.begin = fields.integer("begin", 0, INT64_MAX);
  piece.offset = fields.integer("offset", 0, INT64_MAX);
  piece.bytes = fields.integer("bytes", 1, INT64_MAX);
  piece.hashes = hashes_field(fields, "xxh3");
  fields.done();
  return piece;
}

TensorEntry tensor_from(const nlohmann::json& json, const std::string& file,
                        const std::string& place) {
  Fields fields(json, file, place);
  TensorEntry tensor;
  tensor.kind = kind_field(fields, "kind");
  tensor.fqn = fields.text("fqn");
  tensor.dtype = dtype_field(fields, "dtype");
  tensor.shape = shape_field(fields, "shape");
  const auto& pieces = fields.array("pieces");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string inner = place + ".pieces[" + std::to_string(i) + "]";
    tensor.pieces.push_back(piece_from(pieces[i], file, inner));
  }
  fields.done();
  return tensor;
}

void require_hash(std::string_view text, const std::string& file) {
  if (text.size() > kTailBytes) {
    const auto body = text.substr(0, text.size() - kTailBytes);
    if (text.substr(body.size()) == tail_for(body)) return;
  }
  throw CheckpointError(file, "",
                        "is damaged: its bytes do not have the hash it ends with",
                        "use another checkpoint");
}

void require_version(Fields& fields) {
  if (fields.text("format") != kFormatName) fields.fail("is not a checkpoint's manifest");
  const int64_t version = fields.integer("version", 0, INT64_MAX);
  if (version != kFormatVersion) {
    fields.fail("has format version " + std::to_string(version) +
                ", this program reads version " + std::to_string(kFormatVersion));
  }
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  OrderedJson json = {{"format", kFormatName},
                      {"version", kFormatVersion},
                      {"step", manifest.step},
                      {"world_size", manifest.world_size}};
  json["files"] = OrderedJson::array();
  for (const auto& file : manifest.files) json["files"].push_back(to_json(file));
  json["tensors"] = OrderedJson::array();
  for (const auto& tensor : manifest.tensors) json["tensors"].push_back(to_json(tensor));
  json["aliases"] = manifest.aliases;
  json["config"] = OrderedJson(parse_strictly(manifest.config, "the config"));
  json["position"] = OrderedJson(parse_strictly(manifest.position, "the position"));
  std::string text = json.dump();
  text.pop_back();  // the closing brace comes after the hash
  return text + tail_for(text);
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  require_hash(text, file);
  const auto json = parse_strictly(text, file);
  Fields fields(json, file, "");
  require_version(fields);
  Manifest manifest;
  manifest.step = fields.integer("step", 0, INT64_MAX);
  manifest.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  const auto& files = fields.array("files");
  for (size_t i = 0; i < files.size(); ++i) {
    manifest.files.push_back(
        file_from(files[i], file, "files[" + std::to_string(i) + "]"));
  }
  const auto& tensors = fields.array("tensors");
  for (size_t i = 0; i < tensors.size(); ++i) {
    manifest.tensors.push_back(
        tensor_from(tensors[i], file, "tensors[" + std::to_string(i) + "]"));
  }
  for (const auto& [alias, fqn] : fields.object("aliases").items()) {
    if (!fqn.is_string()) fields.fail("has an alias that is no text");
    manifest.aliases[alias] = fqn.get<std::string>();
  }
  manifest.config = fields.any("config").dump();
  manifest.position = fields.any("position").dump();
  fields.any("xxh3");  // checked above
  fields.done();
  check_manifest(manifest, file);
  return manifest;
}

}  // namespace zero::checkpoint

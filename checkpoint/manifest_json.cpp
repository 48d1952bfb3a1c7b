#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/json.h"
#include "checkpoint/manifest.h"

// One JSON for what lies in a checkpoint: a shard report tells a file and its tensors as
// the manifest does. The manifest is one object whose last field is the hash of all bytes
// before it:
//   {"format":"zero checkpoint", ... ,"xxh3":"0123456789abcdef"}\n
namespace zero::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kFormatName[] = "zero checkpoint";
constexpr std::string_view kHashKey = ",\"xxh3\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr size_t kHashDigits = 16;
constexpr size_t kTailBytes = kHashKey.size() + kHashDigits + kEnd.size();

std::string tail_for(std::string_view body) {
  return text_of(kHashKey, hex_hash(body), kEnd);
}

OrderedJson to_json(const FileEntry& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", to_hex(file.hash)}};
}

OrderedJson to_json(const Piece& piece) {
  std::string hashes;
  hashes.reserve(kHashDigits * piece.hashes.size());
  for (const uint64_t hash : piece.hashes) hashes += to_hex(hash);
  return {{"file", piece.file},
          {"begin", piece.begin},
          {"offset", piece.offset},
          {"bytes", piece.bytes},
          {"xxh3", hashes}};
}

OrderedJson to_json(const StoredTensor& tensor);

template <class T>
OrderedJson to_json(const std::vector<T>& list) {
  OrderedJson array = OrderedJson::array();
  for (const T& item : list) array.push_back(to_json(item));
  return array;
}

OrderedJson to_json(const StoredTensor& tensor) {
  return {{"kind", name_of(tensor.kind)},
          {"fqn", tensor.fqn},
          {"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape},
          {"pieces", to_json(tensor.pieces)}};
}

std::vector<uint64_t> hashes_from(Fields& fields) {
  const std::string digits = fields.text("xxh3");
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < digits.size(); i += kHashDigits) {
    const auto hash = from_hex(std::string_view(digits).substr(i, kHashDigits));
    if (!hash) fields.fail("has a hash that is not 16 hexadecimal digits");
    hashes.push_back(*hash);
  }
  return hashes;
}

FileEntry file_from(Fields& fields) {
  FileEntry file{.name = fields.text("name"), .bytes = fields.integer("bytes")};
  const std::vector<uint64_t> hashes = hashes_from(fields);
  if (hashes.size() != 1) fields.fail("has not one hash");
  file.hash = hashes.front();
  return file;
}

Piece piece_from(Fields& fields) {
  return {.file = fields.text("file"),
          .begin = fields.integer("begin"),
          .offset = fields.integer("offset"),
          .bytes = fields.integer("bytes", 1),
          .hashes = hashes_from(fields)};
}

// What `lookup` finds under the name that a field tells.
template <class T>
T named(Fields& fields, const char* key, std::optional<T> (*lookup)(std::string_view)) {
  const std::string name = fields.text(key);
  const auto found = lookup(name);
  if (!found) fields.fail(text_of("has the unknown ", key, " \"", printable(name), "\""));
  return *found;
}

Shape shape_from(Fields& fields) {
  Shape shape;
  for (const auto& dim : fields.array("shape")) {
    const auto size = integer_in(dim, 0);
    if (!size) fields.fail("has a dimension that is no integer from 0");
    shape.push_back(*size);
  }
  if (!checked_numel(shape)) fields.fail("has an impossible shape");
  return shape;
}

StoredTensor tensor_from(Fields& fields) {
  return {.kind = named(fields, "kind", kind_named),
          .fqn = fields.text("fqn"),
          .dtype = named(fields, "dtype", dtype_named),
          .shape = shape_from(fields),
          .pieces = fields.list("pieces", piece_from)};
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

std::map<std::string, double> numbers_from(Fields& fields, const char* key) {
  std::map<std::string, double> numbers;
  for (const auto& [name, number] : fields.object(key).items()) {
    if (!number.is_number())
      fields.fail("has \"" + printable(name) + "\" that is no number");
    numbers[name] = number.get<double>();
  }
  return numbers;
}

int64_t version_from(Fields& fields) {
  if (fields.text("format") != kFormatName) fields.fail("is not a checkpoint's manifest");
  const int64_t version = fields.integer("version");
  if (version >= kOldestVersion && version <= kFormatVersion) return version;
  fields.fail(text_of("has format version ", version, ", this program reads versions ",
                      kOldestVersion, " to ", kFormatVersion));
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  const OrderedJson json = {
      {"format", kFormatName},
      {"version", kFormatVersion},
      {"step", manifest.step},
      {"world_size", manifest.world_size},
      {"files", to_json(manifest.files)},
      {"tensors", to_json(manifest.tensors)},
      {"aliases", manifest.aliases},
      {"config", OrderedJson(parse_strictly(manifest.config, "the config"))},
      {"position", OrderedJson(parse_strictly(manifest.position, "the position"))},
      {"engine", manifest.engine}};
  std::string text = json.dump();
  text.pop_back();  // the closing brace comes after the hash
  return text + tail_for(text);
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  require_hash(text, file);
  const auto json = parse_strictly(text, file);
  Fields fields(json, file, "");
  const int64_t version = version_from(fields);
  Manifest manifest;
  manifest.step = fields.integer("step");
  manifest.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  manifest.files = fields.list("files", file_from);
  manifest.tensors = fields.list("tensors", tensor_from);
  for (const auto& [alias, fqn] : fields.object("aliases").items()) {
    if (!fqn.is_string()) fields.fail("has an alias that is no text");
    manifest.aliases[alias] = fqn.get<std::string>();
  }
  manifest.config = fields.any("config").dump();
  manifest.position = fields.any("position").dump();
  if (version >= 2) manifest.engine = numbers_from(fields, "engine");
  fields.any("xxh3");  // checked above
  fields.done();
  check_manifest(manifest, file);
  return manifest;
}

std::string to_text(const ShardReport& report) {
  return OrderedJson{{"rank", report.rank},
                     {"world_size", report.world_size},
                     {"files", OrderedJson::array({to_json(report.file)})},
                     {"tensors", to_json(report.tensors)}}
      .dump();
}

ShardReport parse_report(std::string_view text) {
  const auto json = parse_strictly(text, "shard report");
  Fields fields(json, "shard report", "");
  ShardReport report;
  report.rank = static_cast<int>(fields.integer("rank", 0, kMaxWorldSize - 1));
  report.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  const auto files = fields.list("files", file_from);
  if (files.size() != 1) fields.fail("has not one file");
  report.file = files.front();
  report.tensors = fields.list("tensors", tensor_from);
  fields.done();
  return report;
}

}  // namespace zero::checkpoint

#include "checkpoint/piece_json.h"

#include "checkpoint/error.h"
#include "checkpoint/hash.h"

namespace zero::checkpoint {

std::string to_hex(const std::vector<uint64_t>& hashes) {
  std::string digits;
  digits.reserve(16 * hashes.size());
  for (const uint64_t hash : hashes) digits += to_hex(hash);
  return digits;
}

uint64_t hash_field(Fields& fields, const char* key) {
  const auto hash = from_hex(fields.text(key));
  if (!hash) fields.fail("has a hash that is not 16 hexadecimal digits");
  return *hash;
}

std::vector<uint64_t> hashes_field(Fields& fields, const char* key) {
  const std::string digits = fields.text(key);
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < digits.size(); i += 16) {
    const auto hash = from_hex(std::string_view(digits).substr(i, 16));
    if (!hash) fields.fail("has a hash that is not 16 hexadecimal digits");
    hashes.push_back(*hash);
  }
  return hashes;
}

Kind kind_field(Fields& fields, const char* key) {
  const std::string name = fields.text(key);
  const auto kind = kind_named(name);
  if (!kind) fields.fail("has the unknown kind \"" + printable(name) + "\"");
  return *kind;
}

DType dtype_field(Fields& fields, const char* key) {
  const std::string name = fields.text(key);
  const auto dtype = dtype_named(name);
  if (!dtype) fields.fail("has the unknown dtype \"" + printable(name) + "\"");
  return *dtype;
}

Shape shape_field(Fields& fields, const char* key) {
  Shape shape;
  for (const auto& dim : fields.array(key)) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX) {
      fields.fail("has a dimension that is no integer from 0");
    }
    shape.push_back(dim.get<int64_t>());
  }
  if (!checked_numel(shape)) fields.fail("has an impossible shape");
  return shape;
}

}  // namespace zero::checkpoint

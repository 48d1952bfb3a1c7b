#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/json.h"
#include "checkpoint/shape.h"

// The JSON fields that manifests and shard reports share.
namespace zero::checkpoint {

std::string to_hex(const std::vector<uint64_t>& hashes);  // 16 digits each, joined

uint64_t hash_field(Fields& fields, const char* key);
std::vector<uint64_t> hashes_field(Fields& fields, const char* key);
Kind kind_field(Fields& fields, const char* key);
DType dtype_field(Fields& fields, const char* key);
Shape shape_field(Fields& fields, const char* key);

}  // namespace zero::checkpoint

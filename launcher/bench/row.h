#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/rounds.h"

namespace zero::launcher {

// One line of a table: values by the names of their columns, in the order in which they
// were put there. Texts, whole numbers and numbers.
using Row = nlohmann::ordered_json;

// Put what was measured behind what the row tells already, beside its limit: "seconds"
// and "limit_seconds" (medians), "gb_per_s" (10^9 bytes; with `bytes` 0 there is none),
// "limit" (its name) and "ratio_to_limit".
void add_result(Row& row, const Seconds& measured, int64_t bytes,
                const std::string& limit_name, const Seconds& limit);

// For people: a heading and aligned columns, those of all rows; what a row does not tell
// stays empty. Underscores become blanks.
std::string to_table(const std::vector<Row>& rows);

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zero::launcher {

// Of one thing that was measured, in the order of the rounds.
using Seconds = std::vector<double>;

// What is measured: does its work once and tells how many seconds that took.
using Contestant = std::function<double()>;

// Let all contestants work once a round, one after the other, so that what the machine
// does meanwhile falls on all of them. A first round warms up and does not count. Throws
// Error(kInterrupted) between two of them once a signal has asked to stop.
// Result: of each contestant, its seconds in each round.
std::vector<Seconds> alternate(const std::vector<Contestant>& contestants,
                               int64_t num_rounds);

// The seconds of one call.
double seconds_of(const std::function<void()>& work);

// The middle one, or the mean of the two in the middle; of at least one value.
double median(std::vector<double> values);

// The median over rounds of limit / measured: 1 is as fast as the limit.
double ratio_to_limit(const Seconds& measured, const Seconds& limit);

// How much of the time of an update a queue saves: 1 all, 0 nothing. The median over
// rounds, of the seconds of steps that update at their end, in a queue, or not at all.
double hidden_part(const Seconds& in_step, const Seconds& queued, const Seconds& none);

// Round by round.
Seconds operator+(const Seconds& left, const Seconds& right);
Seconds operator-(const Seconds& left, const Seconds& right);
// What `whole` takes beyond `part` of it: not less than nothing, which noise would give.
Seconds beyond(const Seconds& whole, const Seconds& part);

// One line of a table: values by the names of their columns, in the order in which they
// were put there. Texts, whole numbers and numbers.
using Row = nlohmann::ordered_json;

// What was measured behind what the row tells already, beside its limit: "seconds" and
// "limit_seconds" (medians), "gb_per_s" (10^9 bytes; with `bytes` 0 there is none),
// "limit" (its name) and "ratio_to_limit".
Row with_result(Row row, const Seconds& measured, int64_t bytes,
                const std::string& limit_name, const Seconds& limit);

// For people: a heading and aligned columns, those of all rows; what a row does not tell
// stays empty. Underscores become blanks.
std::string to_table(const std::vector<Row>& rows);

}  // namespace zero::launcher

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero::launcher {

// Values as people write them. All give nothing when the whole text is not such a value.

std::optional<int64_t> parse_integer(std::string_view text);  // -12, 1_000
std::optional<double> parse_number(std::string_view text);    // 3e-4; finite and within
                                                              // double's range
std::optional<bool> parse_boolean(std::string_view text);  // true false yes no on off 1 0
// In seconds, as Slurm takes it: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes, days-hours:minutes:seconds.
std::optional<int64_t> parse_duration(std::string_view text);
// In seconds, more than 0: numbers with units, 90s, 10min, 1h30min, 2d.
std::optional<int64_t> parse_span(std::string_view text);

// In bytes: 4GiB, 1.5T, 512MB; KB, MB, ... are powers of 1000, K, KiB, M, MiB, ... of
// 1024, a number alone is bytes.
std::optional<int64_t> parse_size(std::string_view text);

// Which units are recomputed, as Recompute::every counts them: "unit" 1, "none" 0,
// "every:3" 3.
std::optional<int64_t> parse_recompute(std::string_view text);

// An amount of memory as a setting takes it, in bytes: with its unit, or 0, or a bare
// number from 1 MiB on ("80" is meant as GiB by whoever writes it).
std::optional<int64_t> parse_told_size(std::string_view text);
// The same, or "off", which is 0.
std::optional<int64_t> parse_size_or_off(std::string_view text);
// "auto" is 1, which an engine does while nobody knows better.
std::optional<int> parse_prefetch(std::string_view text);
// "all", "host", "8": as Options::shard_ranks.
std::optional<int> parse_shard_over(std::string_view text);

// A number from 0 to 1.
std::optional<double> parse_fraction(std::string_view text);

// A day that there is, as 2026-11-26.
bool is_date(std::string_view text);

// A point of the code and its delay in milliseconds, an hour at most: "gather=20".
std::optional<std::pair<std::string, int>> parse_delay(std::string_view text);

std::string format_duration(int64_t seconds);  // "23:30:00"
std::string format_span(int64_t seconds);      // "1h30min"; "0"
std::string format_size(int64_t bytes);        // "4GiB", without loss

// "0.9,0.95" -> {"0.9", "0.95"}; blanks around the parts are dropped, empty parts kept.
std::vector<std::string> split(std::string_view text, char separator);

// {"a", "b", "c"} -> "a, b or c"
std::string alternatives(const std::vector<std::string>& words);

constexpr size_t kPageWidth = 80;
// Each line broken at blanks so that none is wider, where words allow it. What goes on
// stands behind `indent` blanks, or below where its line begins.
std::string wrapped(const std::string& text, size_t width = kPageWidth,
                    std::optional<size_t> indent = {});

bool is_utf8(std::string_view text);

}  // namespace zero::launcher

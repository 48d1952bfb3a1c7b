#pragma once
#include <cstdint>
#include <string>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

int64_t count(const Diagnosis& diagnosis, Mark mark);

// For people: a line for each finding, a second one with the cure.
std::string to_page(const Diagnosis& diagnosis, double seconds);

// For programs: one JSON object in a line.
std::string to_line(const Diagnosis& diagnosis, double seconds);

// The page of `zero_launch doctor --help`.
std::string doctor_help(const std::string& verb);

}  // namespace zero::launcher

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/report/history.h"

namespace zero::launcher {

// How each of our pages begins.
inline constexpr char kReportBegin[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n"
    "<meta name=\"generator\" content=\"zero_launch report\">";

// A page that shows a run: HTML of one file, which asks nothing of any network.
std::string report_page(const History& history, const std::string& name);

// The parts of a report that are no pictures, each as HTML; empty where there is nothing
// to tell.

// A text, or a number, or what a list holds with commas; nothing for null.
std::string value_text(const nlohmann::json& value);
// What a record has under "/world/size"; null where it has nothing.
nlohmann::json value_at(const nlohmann::json& record, const char* pointer);
// The same of the run's last start; null without one.
nlohmann::json last_start(const History& history, const char* pointer);
// "2026-11-23 09:31 UTC"; empty for a time that no run has.
std::string utc_time(double wall);

std::string settings_tables(const History& history);
std::string memory_table(const History& history);
std::string starts_table(const History& history);
std::string sample_list(const History& history);

}  // namespace zero::launcher

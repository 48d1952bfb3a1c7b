#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/history.h"

namespace zero::launcher {

// How each of our pages begins.
inline constexpr char kReportBegin[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n"
    "<meta name=\"generator\" content=\"zero_launch report\">";

// A page that shows a run: HTML of one file, which asks nothing of any network.
std::string report_page(const History& history, const std::string& name);

// A page that shows several runs side by side, at most kMostRuns.
constexpr size_t kMostRuns = 6;
std::string comparison_page(const std::vector<NamedHistory>& runs);

// The training loss at the end of a run with steps, and of how many it is the average,
// about.
std::pair<double, int64_t> training_loss(const History& history);

// ---- what pages are made of

// HTML around a body: its looks, and the script that reads numbers out.
std::string html_page(const std::string& name, const std::string& body);
// With a title; empty where the content is.
std::string section(const char* title, const std::string& content);
// Text of unknown origin.
std::string page_text(const std::string& text);

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
// Numbers of several runs, and the settings in which they differ.
std::string runs_table(const std::vector<NamedHistory>& runs);
std::string differing_settings(const std::vector<NamedHistory>& runs);

}  // namespace zero::launcher

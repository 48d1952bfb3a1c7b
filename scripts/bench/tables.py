#!/usr/bin/env python3
"""Rows of JSON, as `zero_launch bench --json` prints them, become a table in Markdown.

    tables.py < ROWS            one array of rows
    tables.py --rounds < LINES  an array a line, the limit of each round first: medians of what has one name
    tables.py --medians < LINES  an array a line: medians of every number of what has one name and number of ranks
"""

import json
import statistics
import sys

LIMIT = "silent, no optimizer"


def cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_table(rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    print("| " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(cell(row.get(column, "")) for column in columns) + " |")


def medians(lines):
    """Of every name and type: the median speed, and the median of its ratios to the limit of the same round."""
    speeds, ratios, peaks, limit = {}, {}, {}, {}
    for line in lines:
        for row in sorted(json.loads(line), key=lambda row: row["name"] != LIMIT):
            key, speed = (row["name"], row["type"], row["ranks"]), row["tokens_per_s"]
            if row["name"] == LIMIT:
                limit[row["type"]] = speed
            elif row.get("limit", LIMIT) != LIMIT:
                continue  # the same speed again, beside another limit
            speeds.setdefault(key, []).append(speed)
            ratios.setdefault(key, []).append(speed / limit[row["type"]])
            peaks[key] = max(row["peak_mib"], peaks.get(key, 0))
    return [{"name": name, "type": kind, "ranks": ranks, "tokens_per_s": statistics.median(speeds[key]),
             "ratio_to_limit": statistics.median(ratios[key]), "peak_mib": peaks[key]}
            for key in sorted(speeds, key=lambda key: key[1:]) for name, kind, ranks in [key]]


def plain_medians(lines):
    rounds = {}
    for line in lines:
        for row in json.loads(line):
            rounds.setdefault((row["name"], row["ranks"]), []).append(row)
    return [{key: statistics.median(row[key] for row in rows) if isinstance(rows[0][key], float) else rows[0][key]
             for key in rows[0]} for rows in rounds.values()]


MODES = {(): json.load, ("--rounds",): medians, ("--medians",): plain_medians}
print_table(MODES[tuple(sys.argv[1:])](sys.stdin))

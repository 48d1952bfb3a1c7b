"""Rows of JSON, as `zero_launch bench --json` prints them, become a table in Markdown.

    tables.py < ROWS            one array of rows
    tables.py --rounds < LINES  an array a line, the limit of each round first: medians of what has one name
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


print_table(medians(sys.stdin) if sys.argv[1:] == ["--rounds"] else json.load(sys.stdin))

"""What came out, kept in a file, so that a campaign can go on; and as a table."""

import collections
import json

COUNTS = ["lost", "silent", "stuck", "foreign", "missed"]
HEADS = ["run", "ranks", "fault", "exchange", "calls", "trials", *COUNTS]


class Results:
    def __init__(self, path, goes_on):
        self.path, self.done = path, {}
        if not goes_on:
            path.unlink(missing_ok=True)
        if path.exists():
            self.done = {line["trial"]: line for line in map(json.loads, path.read_text().splitlines())}

    def add(self, name, group, call, problems):
        line = {"trial": name, "group": group, "call": call, "problems": problems}
        self.done[name] = line
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        if problems:
            again = f"scripts/crash_campaign.sh --only {name}"
            print("\n    ".join([f"BAD {name} ({call})", *problems, again]), flush=True)


def counts_of(runs):
    """Of each count, the trials that had it."""
    return collections.Counter(what for problems in runs for what in {problem.split(":")[0] for problem in problems})


def print_table(results, num_calls, wanted):
    """Print the trials that are `wanted`; returns whether all is well. `num_calls` of each (story, ranks, exchange)."""
    rows = collections.defaultdict(list)
    for line in results.done.values():
        if line["trial"] in wanted:
            rows[tuple(line["group"])].append(line["problems"])
    total = counts_of([problems for runs in rows.values() for problems in runs])
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    for (story, ranks, kind, exchange), runs in rows.items():
        counts = counts_of(runs)
        calls = num_calls.get((story, ranks, exchange), "")
        cells = [story, ranks, kind, "yes" if exchange else "no", calls, len(runs)]
        print("| " + " | ".join(map(str, cells + [counts[what] for what in COUNTS])) + " |")
    cells = ["all", "", "", "", "", sum(map(len, rows.values()))]
    print("| " + " | ".join(map(str, cells + [total[what] for what in COUNTS])) + " |")
    return not total

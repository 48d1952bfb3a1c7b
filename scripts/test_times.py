#!/usr/bin/env python3
"""Print the seconds that each target took to compile and link, and each test to run.

    scripts/test_times.py BUILD_FOLDER RESULTS.xml

Compiling: the last time of each file, of CMake's targets, as ninja has it in .ninja_log; files beside one another count each.
Tests: what ctest --output-junit wrote.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

SHORT = 1  # seconds: what takes less stands in one line


def seconds_of_targets(build):
    """Of each target: seconds of its files, which ninja makes beside others."""
    log = build / ".ninja_log"
    if not log.exists():
        return {}
    last = {}
    for line in log.read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        last[output] = (int(end) - int(begin)) / 1000
    targets = defaultdict(float)
    for output, seconds in last.items():
        in_target = re.search(r"([^/]+)\.dir/", output)
        targets[in_target.group(1) if in_target else Path(output).name] += seconds
    return targets


def seconds_of_tests(results):
    tests = ElementTree.parse(results).getroot().iter("testcase")
    return {test.get("name"): float(test.get("time")) for test in tests if test.find("skipped") is None}


def print_table(title, seconds):
    print(f"\n{title:<48} seconds")
    short = {name: time for name, time in seconds.items() if time < SHORT}
    for name, time in sorted(seconds.items(), key=lambda item: -item[1]):
        if name not in short:
            print(f"  {name:<46} {time:7.1f}")
    print(f"  {f'{len(short)} others':<46} {sum(short.values()):7.1f}")
    print(f"  {'sum':<46} {sum(seconds.values()):7.1f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print_table("compiled and linked (target)", seconds_of_targets(Path(sys.argv[1])))
    print_table("tested", seconds_of_tests(sys.argv[2]))

#!/usr/bin/env python3
"""Draw lines of the product at random and break each: a list for scripts/mutants.py, to find what no test sees.

    scripts/draw_mutants.py --count 40 --seed 7 > /tmp/drawn.toml
    scripts/mutants.py --list /tmp/drawn.toml --timeout 600

Each room is drawn equally often. The tests are those of the line's room, quick ones first; a survivor may be
equivalent, or a hole: then it wants a test, and a place in tests/mutations. Lines that do not compile cost little.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What is turned into what: one of those that a line allows.
BREAKS = [(" <= ", " < "), (" >= ", " > "), (" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" != ", " == "),
          (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "),
          (" += ", " -= "), ("true", "false"), ("false", "true"), ("if (", "if (!"), ("std::min", "std::max"),
          ("std::max", "std::min"), (" 0;", " 1;"), (" 1;", " 0;"), ("(0,", "(1,"), ("++", "--"), ("continue;", ";")]
CALL = re.compile(r"[a-z_][\w.:>-]*\(.*\);")  # a statement of its own: left out
LAUNCHER = ["launcher_tests", "tests/messages/messages.py --every 4", "scenario_tests"]
ENGINE = ["engine_core_tests", "layers_tests", "engine_tests"]
# By the longest prefix of a file's name.
TESTS = {"base/": ["checkpoint_tests", "engine_core_tests", "launcher_tests"], "checkpoint/": ["checkpoint_tests"],
         "offload/": ["offload_tests", "engine_core_tests", "engine_tests"], "engine/": ENGINE,
         "engine/layers/": ["layers_tests", "model_tests"], "examples/": ["model_tests", "scenario_tests"],
         "launcher/": LAUNCHER, "launcher/data/": ["data_tests", *LAUNCHER], "launcher/plan/": ["model_tests", *LAUNCHER],
         "launcher/inference/": ["model_tests", *LAUNCHER], "launcher/run/": ["model_tests", *LAUNCHER]}
# What runs on a GPU alone, or measures.
LEFT_OUT = re.compile(r"cuda|nccl|gpu|engine/device/|launcher/(bench|selftest|doctor)/|\.cu$")


def tests_of(name):
    return TESTS[max((prefix for prefix in TESTS if name.startswith(prefix)), key=len)]


def room_of(name):
    parts = Path(name).parts
    return "/".join(parts[:2]) if parts[0] in ("engine", "launcher") and len(parts) > 2 else parts[0]


def broken_forms(line):
    """The ways to break a line that is code and no message."""
    code = line.strip()
    if not code or re.match(r'//|#|\*|static_assert|template|using|namespace|class|struct|return;', code) or '"' in code:
        return []
    forms = [line.replace(old, new, 1) for old, new in BREAKS if old in line]
    return forms + [line.replace(code, ";")] if CALL.fullmatch(code) else forms


def candidates():
    """By room: (file, line, its broken forms) of each line that occurs once in its file."""
    names = subprocess.check_output(["git", "ls-files", "--", *{prefix.split("/")[0] for prefix in TESTS}], cwd=ROOT,
                                    text=True).split("\n")
    rooms = {}
    for name in names:
        if not name.endswith((".cpp", ".h")) or LEFT_OUT.search(name):
            continue
        text = (ROOT / name).read_text()
        for line in text.split("\n"):
            if text.count(line) == 1 and (forms := broken_forms(line)):
                rooms.setdefault(room_of(name), []).append((name, line, forms))
    return rooms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", metavar="N", type=int, default=40)
    parser.add_argument("--seed", metavar="N", type=int, default=0)
    options = parser.parse_args()
    draw, rooms = random.Random(options.seed), candidates()
    for index in range(options.count):
        name, line, forms = draw.choice(rooms[draw.choice(sorted(rooms))])
        values = {"name": f"{index + 1}. {name}: {line.strip()}", "file": name, "find": line,
                  "replace": draw.choice(forms)}
        print("[[mutation]]")
        for key, value in values.items():
            print(f"{key} = {json.dumps(value)}")
        print(f"tests = {json.dumps(tests_of(name))}\n")


if __name__ == "__main__":
    sys.exit(main())

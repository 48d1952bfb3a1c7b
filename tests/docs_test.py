#!/usr/bin/env python3
"""Every section of docs/units.md names its tests in a comment; do they exist?"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sources = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*_test.cpp"))
known = {".".join(match) for match in re.findall(r"TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", sources)}
known |= {path.stem for path in ROOT.glob("tests/**/*_test.sh")}

sections = re.split(r"^## ", (ROOT / "docs/units.md").read_text(), flags=re.MULTILINE)[1:]
wrong = []
for section in sections:
    named = re.findall(r"<!-- tests:(.*?)-->", section, flags=re.DOTALL)
    tests = " ".join(named).split()
    if not tests:
        wrong.append(f"section '{section.splitlines()[0]}' names no tests")
    wrong += [f"{test} is no test" for test in tests if test not in known]
for line in wrong:
    print(f"docs/units.md: {line}", file=sys.stderr)
sys.exit(1 if wrong or not sections else 0)

#!/usr/bin/env python3
"""Is what the pages say still so? Tests that docs/units.md names exist, links lead somewhere, lines are short."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("base", "checkpoint", "docs", "engine", "examples", "launcher", "offload", "scripts", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
LONGEST_LINE = 100


def known_tests():
    sources = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*_test.cpp"))
    known = {".".join(match) for match in re.findall(r"TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", sources)}
    return known | {path.stem for path in ROOT.glob("tests/**/*_test.sh")}


def problems_of_units():
    """Every section of docs/units.md names its tests in a comment."""
    known = known_tests()
    sections = re.split(r"^## ", (ROOT / "docs/units.md").read_text(), flags=re.MULTILINE)[1:]
    if not sections:
        yield "docs/units.md has no sections"
    for section in sections:
        tests = " ".join(re.findall(r"<!-- tests:(.*?)-->", section, flags=re.DOTALL)).split()
        if not tests:
            yield f"docs/units.md: section '{section.splitlines()[0]}' names no tests"
        yield from (f"docs/units.md: {test} is no test" for test in tests if test not in known)


def prose_of(page):
    """(number, line) of the lines outside of code, tables and comments."""
    is_fenced = is_code = is_comment = False
    before = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        is_comment = is_comment or line.lstrip().startswith("<!--")
        is_code = line.startswith("    ") and (is_code or not before.strip()) or (is_code and not line.strip())
        if not (is_fenced or is_code or is_comment or line.lstrip().startswith(("|", "```"))):
            yield number, line
        is_comment = is_comment and "-->" not in line
        before = line


def problems_of_lines():
    for page in PAGES:
        for number, line in prose_of(page):
            if len(line) > LONGEST_LINE:
                yield f"{page.relative_to(ROOT)}:{number}: {len(line)} columns, at most {LONGEST_LINE}"


def anchors_of(page):
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*?)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def problems_of_links():
    """A relative link leads to a file or folder, and to one of its headings if it names one."""
    for page in PAGES:
        for target in re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', page.read_text()):
            path, _, anchor = "".join(target).partition("#")
            if ":" in path:
                continue
            there = (page.parent / path) if path else page
            if not there.exists():
                yield f"{page.relative_to(ROOT)}: {path} does not exist"
            elif anchor and there.suffix == ".md" and anchor not in anchors_of(there):
                yield f"{page.relative_to(ROOT)}: {path or page.name} has no heading #{anchor}"


problems = [*problems_of_units(), *problems_of_links(), *problems_of_lines()]
for line in problems:
    print(line, file=sys.stderr)
sys.exit(1 if problems else 0)

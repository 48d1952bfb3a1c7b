#!/usr/bin/env python3
"""Is what the pages say still so? Tests and files that they name exist, links lead somewhere, lines are short,
and the top level is tidy."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("base", "checkpoint", "docs", "engine", "examples", "launcher", "offload", "scripts", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
LONGEST_LINE = 100
TOP = ("CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "NOTICE", "README.md")


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


def problems_of_features():
    """Every feature of docs/coming-from.md names its tests."""
    known = known_tests()
    rows = (ROOT / "docs/coming-from.md").read_text().partition("| feature | test |")[2].splitlines()[2:]
    if not rows:
        yield "docs/coming-from.md has no features"
    for row in rows:
        tests = re.findall(r"`(\w+\.\w+)`", row)
        if not tests:
            yield f"docs/coming-from.md: '{row}' names no test"
        yield from (f"docs/coming-from.md: {test} is no test" for test in tests if test not in known)


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


def is_of_the_tree(name, page, files):
    """Does a page mean a file that is there? By its path from the page or from the top, or by how that ends."""
    beside = str((page.parent / name).relative_to(ROOT))
    return any(file in (name, beside) or file.endswith("/" + name) for file in files)


def problems_of_files():
    """Sources that a page names are there: `sampler.h`, and in a room's README `weights/gather_ring`."""
    files = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    stems = [file.rpartition(".")[0] for file in files]
    moved = (ROOT / "cmake/install.cmake").read_text()  # headers of earlier versions
    for page in PAGES:
        for name in re.findall(r"`([\w./-]+)`", page.read_text()):
            is_source = re.search(r"\w\.(h|cpp|cu|py|sh)$", name)
            is_stem = re.fullmatch(r"[a-z_/]+/[a-z_0-9]+", name) and (page.parent / name.partition("/")[0]).is_dir()
            if "NAME" in name or not (is_source or is_stem) or (page.parent / name).exists():
                continue
            if not is_of_the_tree(name, page, files if is_source else stems) and name not in moved:
                yield f"{page.relative_to(ROOT)}: there is no {name}"


def problems_of_top():
    """The top level holds the project's files alone: no package that a download has left there."""
    names = subprocess.run(["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file() and not name.startswith(".") and name not in TOP:
            yield f"{name}: does not belong to the top level (tests/docs_test.py)"


problems = [*problems_of_top(), *problems_of_units(), *problems_of_features(), *problems_of_files(), *problems_of_links(),
            *problems_of_lines()]
for line in problems:
    print(line, file=sys.stderr)
sys.exit(1 if problems else 0)

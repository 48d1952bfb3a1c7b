"""What the checks of the sources share: which sources there are, and how a check is run."""

import sys
from pathlib import Path

FLOORS = ("base/", "offload/", "checkpoint/", "engine/", "launcher/", "examples/")


def read(root):
    """Of each source: its text."""
    return {str(path.relative_to(root)): path.read_text() for floor in FLOORS for path in sorted((root / floor).rglob("*"))
            if path.suffix in (".h", ".cpp", ".cu")}


def run(problems_of, self_test):
    """Print what is wrong with the tree that holds this script, or with the check; exit with 1 if anything is."""
    problems = self_test() if sys.argv[1:] == ["--self-test"] else problems_of(Path(__file__).resolve().parent.parent)
    for line in problems:
        print(line, file=sys.stderr)
    sys.exit(1 if problems else 0)

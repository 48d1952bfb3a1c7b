#!/usr/bin/env python3
"""Are files replaced, renamed and removed in one place? checkpoint/own_files.h says what may be touched: what is ours.

    scripts/check_own_files.py                 # the tree that holds this script
    scripts/check_own_files.py --self-test     # would a call elsewhere be noticed?
"""

import re
import tempfile
from pathlib import Path

from house import read, run

# The system's and the library's calls that change what has a name, and those that open it for writing. O_CREAT beside
# O_EXCL makes a new file, and so does fopen() with an "x".
NAMES = ("rename|renameat|renameat2|unlink|unlinkat|remove|remove_all|rmdir|link|linkat|symlink|symlinkat|truncate|ftruncate|"
         "resize_file|create_symlink|create_directory_symlink|create_hard_link|copy_file|creat|freopen")
PLAIN = re.compile(rf"(?<![\w.>:])(?:(?:std::)?(?:filesystem|fs)::|std::|::)?({NAMES})\(")
OF_IO = re.compile(r"\bio(?:_|\(\))?(?:\.|->)(rename|exchange|unlink|link)\(")
STREAM = re.compile(r"\b(ofstream|O_TRUNC|ios::trunc)\b")
FOPEN = re.compile(r'\bfopen\([^;]*"[wa+][^x";]*"')
CREATE = re.compile(r"\bO_CREAT\b(?![^;]*O_EXCL)(?<!O_EXCL \| O_CREAT)")
DECLARATION = re.compile(r"[\w>&*]\s+$")
STATEMENT = re.compile(r"\b(?:return|else|do|throw|co_return)\s+$")

# Who may make which of them, and why.
EXCEPTIONS = {
    "checkpoint/io.h": ({"renameat", "renameat2", "linkat", "unlinkat"}, "offers the kernel's calls to checkpoint/own_files"),
    "checkpoint/own_files.cpp": ({"io.rename", "io.exchange", "io.unlink", "io.link"}, "is the place"),
    "engine/comm/memory_file.cpp": ({"ftruncate"}, "sizes memory that has no name"),
    "launcher/process/mpirun.cpp": ({"unlink"}, "removes the file STOP that it has made"),
    "launcher/run/log_files.cpp": ({"O_CREAT", "ftruncate"}, "appends, and takes half a record of its own back"),
    "launcher/run/metrics_history.cpp": ({"ftruncate"}, "takes records of its own back"),
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def plain_calls(code):
    """Calls by name; `void remove(...)` declares one of our own."""
    for match in PLAIN.finditer(code):
        before = code[max(0, match.start() - 40):match.start()]
        is_qualified = "::" in match.group(0)
        if is_qualified or not DECLARATION.search(before) or STATEMENT.search(before):
            yield match.group(1), match.start()


def calls_in(text):
    """(call, line) of everything that changes, removes or writes over a name."""
    code = COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    bare = TEXT.sub('""', code)
    found = [*plain_calls(bare), *((f"io.{m.group(1)}", m.start()) for m in OF_IO.finditer(bare)),
             *((m.group(1), m.start()) for m in STREAM.finditer(bare)), *(("O_CREAT", m.start()) for m in CREATE.finditer(bare))]
    lines = {(call, bare.count("\n", 0, at) + 1) for call, at in found}
    return sorted(lines | {("fopen", code.count("\n", 0, m.start()) + 1) for m in FOPEN.finditer(code)}, key=lambda of: of[1])


def problems_of(root):
    sources = read(root)
    problems = [] if sources else [f"no sources in {root}"]
    used = set()
    for path, text in sources.items():
        allowed = EXCEPTIONS.get(path, (set(), ""))[0]
        for call, line in calls_in(text):
            used.add((path, call))
            if call not in allowed:
                problems.append(f"{path}:{line}: {call} belongs into checkpoint/own_files")
    for path in sources.keys() & EXCEPTIONS.keys():
        unused = sorted(call for call in EXCEPTIONS[path][0] if (path, call) not in used)
        problems += [f"EXCEPTIONS: {path} does not call {call} any more" for call in unused]
    return problems + [f"EXCEPTIONS: there is no {path}" for path in sorted(EXCEPTIONS.keys() - sources.keys())]


def self_test():
    """Lines of a source, and what must be said of them."""
    place = "launcher/a.cpp"
    wrong = {'unlink("x");': "unlink", "::unlink(path);": "unlink", "fs::remove_all(path, error);": "remove_all",
             "std::filesystem::rename(a, b);": "rename", "return remove(path);": "remove", "std::ofstream file(path);": "ofstream",
             'fopen(path, "w");': "fopen", 'std::fopen(path, "r+");': "", 'std::fopen(path, "a");': "fopen",
             "open(path, O_WRONLY | O_CREAT);": "O_CREAT", "open(path, O_WRONLY | O_TRUNC);": "O_TRUNC",
             "io.rename(folder, a, b);": "io.rename", "io().unlink(folder, a, false);": "io.unlink",
             "if (a) ftruncate(file, 0);": "ftruncate"}
    right = ["run.rename(a, b);", "blocks_.remove(memory);", "void Blocks::remove(void* memory) {", "bool remove(const std::string& name);",
             'fopen(path, "wx");', 'fopen(path, "rb");', "open(path, O_CREAT | O_EXCL);", "// unlink(path)", 'say("unlink(it)");',
             "remove_file(folder, name);", "link_ours(folder, a, b, io);"]
    cases = {line: [f"{place}:1: {call} belongs into checkpoint/own_files"] if call else [] for line, call in wrong.items()}
    cases |= {line: [] for line in right}
    failures = []
    for line, expected in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "launcher").mkdir()
            (Path(folder) / place).write_text(line)
            found = [problem for problem in problems_of(Path(folder)) if not problem.startswith("EXCEPTIONS: there is no")]
        if found != expected:
            failures.append(f"self-test: of '{line}' expected {expected}, found {found}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "launcher/process").mkdir(parents=True)
        (Path(folder) / "launcher/process/mpirun.cpp").write_text("int a;")
        if "EXCEPTIONS: launcher/process/mpirun.cpp does not call unlink any more" not in problems_of(Path(folder)):
            failures.append("self-test: an exception that nobody needs passes")
    return failures


if __name__ == "__main__":
    run(problems_of, self_test)

#!/usr/bin/env python3
"""Ask the tests whether they would notice: break one line at a time and see them fail.

The breaks are listed in tests/mutations/*.toml:

    [[mutation]]
    name = "weight decay pushes away from zero"
    file = "offload/update.cpp"
    find = "1 - hyper.lr * hyper.weight_decay"      # occurs exactly once in the file
    replace = "1 + hyper.lr * hyper.weight_decay"
    tests = ["offload_tests --gtest_filter=CpuAdam*"]
    survives = "why no test can see it"             # only where that is so

The first word of a test is a CMake target, as it lies in tests/ of the build folder; "mpirun -n N" may stand before it.
Or it is a script, tests/scripts/terminal_test.py, which takes the program and then the words behind it.
Everything happens in a scratch copy of the tracked files, which is kept, so that a second run builds little.

    scripts/mutants.py --check              # do the lists still match the sources? Takes no time
    scripts/mutants.py --only "adam*"       # run the mutations of these names; files' names match too: "offload*"
    scripts/mutants.py --list drawn.toml    # those of another list, such as scripts/draw_mutants.py writes
"""

import argparse
import fnmatch
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = {"name", "file", "find", "replace", "tests"}
# As set_mpi_environment in common.sh.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "GTEST_COLOR": "no",
               "GTEST_FAIL_FAST": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def load(lists):
    """All mutations of these lists, each with the name of its list."""
    mutations = []
    for path in sorted(lists):
        for mutation in tomllib.loads(path.read_text()).get("mutation", []):
            mutations.append({"name": "(no name)", "list": path.stem} | mutation)
    return mutations


def problem_of(mutation):
    """What makes an entry useless, or nothing."""
    if missing := REQUIRED - mutation.keys():
        return f"lacks {', '.join(sorted(missing))}"
    if unknown := mutation.keys() - REQUIRED - {"list", "survives"}:
        return f"has unknown keys: {', '.join(sorted(unknown))}"
    tests = mutation["tests"]
    if not isinstance(tests, list) or not tests or not all(isinstance(test, str) and test.strip() for test in tests):
        return "names no list of tests"
    if mutation["find"] == mutation["replace"]:
        return "replaces the text by itself"
    path = ROOT / mutation["file"]
    if not path.is_file():
        return f"{mutation['file']} does not exist"
    count = path.read_text().count(mutation["find"])
    return "" if count == 1 else f"its text occurs {count} times in {mutation['file']}, not once"


def check(mutations):
    """Print what is wrong with the lists; true when nothing is."""
    problems = [(m, problem_of(m)) for m in mutations]
    names = [m["name"] for m in mutations]
    problems += [(m, "another mutation has this name") for m in mutations if names.count(m["name"]) > 1]
    for mutation, problem in problems:
        if problem:
            print(f"mutants.py: {mutation['list']}.toml: '{mutation['name']}' {problem}", file=sys.stderr)
    if not mutations:
        print("mutants.py: there are no mutations", file=sys.stderr)
    return bool(mutations) and not any(problem for _, problem in problems)


def is_script(test):
    return shlex.split(test)[0].endswith(".py")


def place_of_program(words):
    return 3 if words[0] == "mpirun" else 0


def target_of(test):
    words = shlex.split(test)
    if is_script(test):
        return "zero_launch"
    return Path(words[place_of_program(words)]).name


def end(process):
    """End a test and all that it started; mpirun wants the time to end its ranks."""
    for end_signal in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, end_signal)
            process.wait(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


class Scratch:
    """A copy of the tracked files, and its build."""

    def __init__(self, folder, jobs, timeout):
        self.tree, self.build_folder = folder / "tree", folder / "build"
        self.jobs, self.timeout = jobs, timeout

    def copy_sources(self):
        """Bring the copy up to date, also after a run that was killed. What is equal keeps its time stamp."""
        tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
        tracked = {name for name in tracked if name and (ROOT / name).is_file()}
        for path in [path for path in self.tree.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.tree)) not in tracked:
                path.unlink()
        for name in tracked:
            source, copy = ROOT / name, self.tree / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
                copy.chmod(source.stat().st_mode)

    def configure(self):
        torch = subprocess.check_output(["bash", "-c", "source scripts/common.sh && zero_torch"], cwd=ROOT, text=True)
        # A broken line may leave a name without use.
        command = ["cmake", "-S", self.tree, "-B", self.build_folder, "-G", "Ninja", "-DZERO_WERROR=OFF",
                   f"-DZERO_TORCH={torch.strip()}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def build(self, tests):
        """The compiler's complaint, or nothing."""
        targets = sorted({target_of(test) for test in tests})
        command = ["cmake", "--build", self.build_folder, "-j", str(self.jobs), "--target", *targets]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.stdout if result.returncode else ""

    def words_of(self, test):
        words = shlex.split(test)
        if is_script(test):
            return [str(self.tree / words[0]), str(self.build_folder / "bin/zero_launch"), *words[1:]]
        program = place_of_program(words)
        words[program] = str(self.build_folder / "tests" / words[program])
        return words

    def failure_of(self, test):
        """How a test failed ("hangs" past the time limit), or nothing."""
        process = subprocess.Popen(self.words_of(test), cwd=self.build_folder, env=ENVIRONMENT | os.environ, text=True,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            output, _ = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return "hangs"
        finally:
            end(process)
        if "Running 0 tests" in output:
            return "no test matches the filter"
        return f"exit {process.returncode}\n{output}" if process.returncode else ""

    def verdict_on(self, mutation):
        """Break the copy, build, test, and mend the copy whatever happens; a verdict and why."""
        path = self.tree / mutation["file"]
        original = path.read_text()
        try:
            path.write_text(original.replace(mutation["find"], mutation["replace"]))
            if complaint := self.build(mutation["tests"]):
                return "does not compile", complaint
            for test in mutation["tests"]:
                if failure := self.failure_of(test):
                    names = re.findall(r"(?:\[  FAILED  \]|^FAIL:) ([^\s,]+)", failure, re.MULTILINE)
                    return "killed", "by " + (names[0] if names else failure.partition("\n")[0])
            return "SURVIVED", mutation.get("survives", "")
        finally:
            path.write_text(original)


def prepare(scratch, tests):
    """Build and run the wanted tests as they are; exits when they fail, as then a failure tells nothing."""
    scratch.copy_sources()
    scratch.configure()
    if complaint := scratch.build(tests):
        sys.exit(f"mutants.py: the sources do not build as they are\n{complaint}")
    for test in sorted(tests):
        if failure := scratch.failure_of(test):
            sys.exit(f"mutants.py: '{test}' fails on the sources as they are: {failure}")


def run(scratch, mutations):
    """One line per mutation and a summary; true when every survivor is explained."""
    prepare(scratch, {test for mutation in mutations for test in mutation["tests"]})
    count = {"killed": 0, "explained": 0, "SURVIVED": 0, "does not compile": 0}
    for mutation in mutations:
        begin = time.monotonic()
        verdict, why = scratch.verdict_on(mutation)
        if verdict == "SURVIVED" and why:
            verdict = "explained"
        if verdict == "killed" and "survives" in mutation:
            why += ", so its `survives` is out of date"
        count[verdict] += 1
        seconds = time.monotonic() - begin
        print(f"{verdict:16} {seconds:5.1f} s  {mutation['list']}: {mutation['name']}: {why}", flush=True)
    print(f"{len(mutations)} mutations: " + ", ".join(f"{number} {verdict}" for verdict, number in count.items()))
    return count["SURVIVED"] == count["does not compile"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare the lists with the sources")
    parser.add_argument("--only", metavar="GLOB", default="*", help="names of mutations, or files")
    parser.add_argument("--list", metavar="FILE", type=Path, help="instead of all of tests/mutations")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="of the compiler")
    parser.add_argument("--timeout", metavar="S", type=float, default=120, help="seconds for one test command")
    parser.add_argument("--scratch", metavar="FOLDER", type=Path, default=ROOT / "build-mutants")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # mends the copy, as Ctrl-C does

    mutations = load([options.list] if options.list else ROOT.glob("tests/mutations/*.toml"))
    if not check(mutations):
        return 1
    wanted = [m for m in mutations if any(fnmatch.fnmatch(m[key], options.only) for key in ("name", "file"))]
    if options.check:
        print(f"{len(mutations)} mutations match the sources")
        return 0
    if not wanted:
        sys.exit(f"mutants.py: no mutation is called '{options.only}'")
    return 0 if run(Scratch(options.scratch.resolve(), options.jobs, options.timeout), wanted) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

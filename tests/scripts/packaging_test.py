#!/usr/bin/env python3
"""Would the Dockerfile build? Its steps are read, since not every machine has Docker, and its first script runs with nothing
but what the image has by then. And does NOTICE name what scripts/setup.sh installs?"""

import fnmatch
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUP = (ROOT / "scripts/setup.sh").read_text()
NOTICE = (ROOT / "NOTICE").read_text()
# What a licence is known by in /usr/share/doc/PACKAGE/copyright.
WORDS = {"Apache-2.0": "Apache", "BSD-3-Clause": "Redistribution and use", "BSD-2-Clause": "Redistribution and use",
         "MIT": "Permission is hereby granted", "IJG": "Independent JPEG Group",
         "libpng-2.0": "PNG Reference Library", "Zlib": "This software is provided 'as-is'"}


def instructions():
    """(name, words) of each, in order."""
    text = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    return [(name, words.strip()) for name, words in re.findall(r"^(\w+) +(.*)$", text, flags=re.MULTILINE)]


def commands():
    """Those of all RUN lines, each as words."""
    return [command.split() for name, words in instructions() if name == "RUN" for command in words.split("&&")]


def setup_packages():
    body = re.search(r"^packages=\(\n(.*?)^\)", SETUP, flags=re.MULTILINE | re.DOTALL).group(1)
    return re.sub(r"#.*", "", body).split()


def copied(sources):
    """The files of the tree that a COPY of these takes."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    files = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], text=True).split()
    kept = [file for file in files if not any(fnmatch.fnmatch(file.split("/")[0], name) for name in ignored)]
    return {file for file in kept if "." in sources or file in sources}


class Dockerfile(unittest.TestCase):
    def test_is_of_the_system_that_readme_names(self):
        self.assertEqual(instructions()[0][0], "FROM")
        self.assertRegex(instructions()[0][1], r"^debian:bookworm(-slim)?$")
        self.assertIn("On Debian 12", (ROOT / "README.md").read_text())

    def test_installs_what_the_bare_machine_had_and_nothing_of_setups(self):
        known = re.search(r"--include=(\S+)", (ROOT / "scripts/bench/bare_machine.sh").read_text()).group(1).split(",")
        installs = [words for words in commands() if words[:2] == ["apt-get", "install"]]
        self.assertEqual(len(installs), 1)
        packages = [word for word in installs[0][2:] if not word.startswith("-")]
        self.assertEqual(sorted(packages), sorted(known))

    def test_each_script_is_there_when_it_runs(self):
        there, has_run = set(), []
        for name, words in instructions():
            if name == "COPY":
                sources = words.split()[:-1]
                for source in sources:
                    self.assertTrue((ROOT / source).exists(), source)
                there |= copied(sources)
            scripts = re.findall(r"scripts/\w+\.sh", words) if name in ("RUN", "CMD") else []
            for script in scripts:
                self.assertIn(script, there)
                self.assertTrue((ROOT / script).stat().st_mode & 0o111, script)
                has_run.append(script)
        self.assertEqual(has_run, ["scripts/setup.sh", "scripts/build.sh", "scripts/demo.sh"])
        self.assertEqual([words[0] for words in commands()],
                         ["apt-get", "apt-get", "scripts/setup.sh", "scripts/build.sh"])

    def test_the_whole_tree_builds(self):
        files = copied(["."])
        for name in ("CMakeLists.txt", "launcher/main.cpp", "tests/CMakeLists.txt", "examples/configs/demo.toml"):
            self.assertIn(name, files)

    def test_setup_needs_nothing_but_what_was_copied_before(self):
        sources = next(words for name, words in instructions() if name == "COPY").split()[:-1]
        with tempfile.TemporaryDirectory() as folder:
            for file in copied(sources):
                (Path(folder) / file).parent.mkdir(exist_ok=True)
                shutil.copy(ROOT / file, Path(folder) / file)
            # Where all is installed it installs nothing.
            done = subprocess.run(["bash", "scripts/setup.sh"], cwd=folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ready", done.stderr)


class Notice(unittest.TestCase):
    ROWS = re.findall(r"^    \S.*? {2,}(\S+-dev) +([\w.-]+)", NOTICE, flags=re.MULTILINE)

    def test_names_each_library_that_setup_installs(self):
        libraries = [package for package in setup_packages() if package.endswith("-dev")]
        self.assertEqual(sorted(package for package, _ in self.ROWS), sorted(libraries))

    def test_licences_are_those_that_debian_tells(self):
        for package, licence in self.ROWS:
            self.assertIn(licence, WORDS, package)
            told = Path("/usr/share/doc") / package / "copyright"
            if told.exists():
                self.assertIn(WORDS[licence], told.read_text(errors="replace"), package)

    def test_names_what_cmake_links(self):
        torch = re.search(r"torch_version=(\S+)", (ROOT / "scripts/common.sh").read_text()).group(1)
        for name in (f"LibTorch {torch}", "NCCL", "CUDA runtime", "NVTX"):
            self.assertIn(name, NOTICE)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""What scripts/trace_picture.py draws of made-up traces."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "scripts/trace_picture.py"


def events(*spans):
    """A trace with one thread, of (name, begin, end) in milliseconds."""
    names = [{"ph": "M", "name": "process_name", "tid": 0, "args": {"name": "rank 0"}},
             {"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": "training"}}]
    return names + [{"ph": "X", "name": name, "tid": 0, "ts": begin * 1e3, "dur": (end - begin) * 1e3}
                    for name, begin, end in spans]


class TracePictureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = Path(folder.name) / "trace_00000.json"

    def draw(self, trace, *flags):
        """The exit code, the boxes, and what is told."""
        self.trace.write_text(json.dumps(trace))
        done = subprocess.run([sys.executable, PROGRAM, *flags, self.trace], capture_output=True, text=True)
        return done.returncode, re.findall("<title>(.*?): ", done.stdout), done.stderr

    def test_a_step_begins_with_the_batches_that_were_skipped(self):
        trace = events(("step 1", 0, 1), ("step 2", 1, 2), ("a skipped one", 2, 3), ("step 2", 3, 4), ("step 3", 4, 5))
        self.assertEqual(self.draw(trace, "--step=2"), (0, ["step 2", "a skipped one", "step 2"], ""))
        self.assertEqual(self.draw(trace)[1][0], "step 1")

    def test_what_is_not_there_is_told(self):
        trace = events(("step 1", 0, 1))
        self.assertEqual(self.draw(trace, "--step=0"), (1, [], "trace_picture.py: no step 0 in these traces\n"))
        for empty in ([], events()):
            self.assertEqual(self.draw(empty), (1, [], "trace_picture.py: no spans in these traces\n"))

    def test_a_reader_may_leave(self):
        self.trace.write_text(json.dumps(events(*((f"step {i}", i, i + 1) for i in range(5000)))))
        piped = subprocess.run(["sh", "-c", '"$0" "$1" "$2" | head -n 1', sys.executable, PROGRAM, self.trace],
                               capture_output=True, text=True)
        self.assertEqual(piped.stderr, "")
        self.assertTrue(piped.stdout.startswith("<svg"))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""How scripts/gpu_check.sh keeps its time and writes its report. Needs no GPU: the stages are made up."""
import argparse
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/gpu"))
import check as gpu_check  # noqa: E402
import foretell  # noqa: E402


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.check = gpu_check.Check(argparse.Namespace(out=self.folder.name, bundle=None, build="", dry=True, minutes=8,
                                                            way=None, nccl=None))

    def tearDown(self):
        self.check.log.close()
        self.folder.cleanup()

    def stage(self, body, seconds=60):
        self.check.stage("stage", body, seconds)
        return self.check.stages[-1]

    def test_a_stage_that_takes_too_long_is_ended_and_the_next_one_runs(self):
        slow = self.stage(lambda check: check.run(["sleep", "1000"]), 0.1)
        self.assertEqual(slow["status"], "failed")
        self.assertIn("the stage's time was over", slow["error"])
        self.assertEqual(self.stage(lambda check: {"text": check.run(["echo", "b"])})["status"], "passed")

    def test_a_stage_is_left_out_where_less_than_half_of_its_time_is_left(self):
        self.assertEqual(self.stage(lambda check: None, 2 * 480 + 60)["status"], "left out")
        self.assertEqual(self.stage(lambda check: None, 480)["status"], "passed")

    def test_a_stage_that_all_time_was_too_short_for_is_skipped(self):
        def body(check):
            check.stage_ends = check.deadline = 0
            check.run(["sleep", "1000"])

        self.assertEqual(self.stage(body)["status"], "skipped")

    def test_what_fails_or_is_not_here_is_told(self):
        broken = ["sh", "-c", "echo it broke; exit 3"]
        self.assertIn("exit code 3: it broke", self.stage(lambda check: check.run(broken))["error"])
        self.assertEqual(self.stage(lambda check: check.run(["sh", "-c", "echo no GPU; exit 77"]))["reason"], "no GPU")
        self.assertEqual(self.stage(lambda check: check.run(["no-such-program"]))["status"], "skipped")

    def steps_of(self, program):
        """A stage's result, with this program instead of zero_launch: it gets the words behind train or plan."""
        self.check.bundle = Path(self.folder.name)
        run = self.check.bundle / "run"
        run.write_text(f"#!{sys.executable}\nimport json, pathlib, sys\nverb, words = sys.argv[2], sys.argv[3:]\n" + program)
        run.chmod(0o755)
        return self.stage(gpu_check.steps_of(gpu_check.LLAMA_3B, 8))

    def test_what_does_not_fit_is_not_run(self):
        plan = {"fits": False, "offload": "all", "device_state_fraction": 0, "accumulate": "model", "grad_sums": "host",
                "speculate_bytes_per_rank": 0}
        told = self.steps_of(f"print(json.dumps({plan})); sys.exit(3)")
        self.assertEqual((told["status"], told["reason"]), ("skipped", "nothing fits"))

    def test_a_way_that_fails_leaves_the_others(self):
        told = self.steps_of("""
way = words[words.index("--offload") + 1]
if verb == "plan":
    config = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9}
    print(json.dumps({"fits": True, "offload": way, "device_state_fraction": 0, "accumulate": "model",
                      "grad_sums": "host", "speculate_bytes_per_rank": 0, "gpu_bytes_per_rank": 1 << 30,
                      "model": {"seq_len": 4096, "config": config}}))
elif way == "none":
    sys.exit("out of memory")
else:
    out = pathlib.Path(words[words.index("--out") + 1])
    out.mkdir(parents=True)
    records = [{"type": "step", "seconds": 2, "share_waiting": 0}] * 5
    records += [{"type": "memory", "engine_allocated": 1, "engine_planned": 1}]
    (out / "metrics.jsonl").write_text("\\n".join(map(json.dumps, records)))
""")
        self.assertEqual(told["status"], "failed")
        self.assertIn("none: exit code 1: out of memory", told["error"])
        self.assertEqual([(row["offload"], row["seconds"]) for row in self.check.rows], [("all", 2), ("auto", 2)])

    def test_the_report_has_the_foretold_value_beside_the_measured_one(self):
        self.check.rows.append({"run": "3B", "offload": "all", "seconds": 2.5, "seconds foretold": 2, "of none": 0.9,
                                "model": foretell.Model(), "arithmetic": foretell.Run()})
        self.stage(lambda check: {"speed": 7})
        text = (Path(self.folder.name) / "report.md").read_text()
        self.assertIn("| stage | passed | 0.0 | speed: 7 |", text)
        self.assertIn("| 3B | all | 2.500 | 2.000 | 0.900 |", text)
        self.assertEqual(json.loads((Path(self.folder.name) / "report.json").read_text())["steps"][0]["seconds"], 2.5)

    def test_others_are_foretold_from_the_seconds_of_none(self):
        self.check.machine = foretell.Machine()
        row = {"model": foretell.Model(), "arithmetic": foretell.Run(tokens=8192, offload="all"), "seconds": 1}
        gpu_check.benches.foretold(self.check, row, none=None)
        self.assertNotIn("of none foretold", row)
        fast = foretell.step_seconds(self.check.machine, row["model"], foretell.Run(tokens=8192, offload="none"))
        gpu_check.benches.foretold(self.check, row, none=2 * fast)
        slower = row["of none foretold"]  # a GPU that is half as fast hides more
        gpu_check.benches.foretold(self.check, row, none=fast)
        self.assertGreater(slower, row["of none foretold"])


if __name__ == "__main__":
    unittest.main()

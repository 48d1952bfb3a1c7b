#!/usr/bin/env python3
"""Four ranks on two hosts: the numbers of one host, and what happens when things go wrong. hosts_test.py PROGRAM"""

import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

import hosts
import private_world
import small_run
from private_world import FOLDER
from small_run import PROGRAM, dump, flags

HOSTFILE = FOLDER / "hostfile"
SILENT = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


# What docs/cluster.md tells to export: "NAME=value", quoted nowhere.
EXPORTED = re.findall(r"OMPI_MCA_\w+=[\w./-]+", (Path(__file__).resolve().parents[2] / "docs/cluster.md").read_text())


class TwoHosts(small_run.Case):
    def tearDown(self):
        private_world.kill(private_world.processes(str(FOLDER / self.out)))

    def start(self, out, *words, **more):
        """zero_launch train on the first host."""
        words = [PROGRAM, "train", *words, *flags(out, **more)]
        return subprocess.Popen(hosts.words_on("alpha", *words), text=True, **SILENT)

    def start_on_both(self, **more):
        return self.start(self.out, "--ranks=4", f"--hosts={HOSTFILE}", **more)

    def finish(self, process, code=0, limit=60):
        text = process.communicate(timeout=limit)[0]
        self.assertEqual(process.returncode, code, text)
        return text

    def assert_nothing_runs(self):
        programs = [PROGRAM.name, "mpirun", "orted"]
        private_world.wait_for(lambda: not any(private_world.processes("", name) for name in programs), "silence", 30)

    def programs_on(self, host):
        return hosts.processes_on(host, str(FOLDER / self.out), PROGRAM.name)

    def test_numbers_are_those_of_one_host(self):
        self.finish(self.start("one", "--ranks=4", steps=20, **dump("one_state")))
        self.finish(self.start_on_both(steps=20, **dump(f"{self.out}_state")))
        self.assert_same_numbers("one", self.out)

    def test_own_mpirun(self):
        self.finish(self.start("one", "--ranks=4", "--deterministic", steps=20, **dump("one_state")))
        words = ["mpirun", "--host", "alpha:2,beta:2", "--mca", "btl", "tcp,self", "-n", 4]
        for name in os.environ:
            words += ["-x", name] if name.startswith("ZERO_") else []
        words += [PROGRAM, "train", "--deterministic", *flags(self.out, 20, **dump(f"{self.out}_state"))]
        subprocess.run(hosts.words_on("alpha", *words), check=True, timeout=60, **SILENT)
        self.assert_same_numbers("one", self.out)

    def test_groups_of_a_host_let_little_travel(self):
        """With W ranks, G on a host, and M bytes of all weights as of all gradients: (M + M) (W - G) / (G W)."""
        self.finish(self.start("one", "--deterministic", steps=20, **dump("one_state")))
        of_step = {}
        for group in "all", "host":
            out = f"{self.out}_{group}"
            words = "--ranks=4", f"--hosts={HOSTFILE}", "--deterministic", f"--shard-over={group}"
            self.finish(self.start(out, *words, steps=20, **dump(f"{out}_state")))
            self.assertEqual([record["loss"] for record in small_run.records("one", "step")],
                             [record["loss"] for record in small_run.records(out, "step")])
            of_step[group] = small_run.records(out, "step")[-1]
        full = of_step["all"]["bytes_reduced"] * 4 // 3  # a rank gives three of its four parts to others
        gathered = of_step["all"]["bytes_gathered"] * 4 // 3
        self.assertEqual(of_step["all"]["bytes_across_hosts"], (gathered + full) * 2 // 4)
        self.assertEqual(of_step["host"]["bytes_across_hosts"], (full + full) * 2 // (2 * 4))

    def test_ctrl_c_saves_and_the_run_goes_on(self):
        process = self.start_on_both()
        small_run.wait_for_step(self.out, 3)
        self.assertEqual([len(self.programs_on(host)) for host in hosts.NAMES], [3, 2], "one of them starts the others")
        process.send_signal(signal.SIGINT)
        self.finish(process, 75)
        self.assert_nothing_runs()
        done = small_run.steps(self.out)[-1]
        self.assertEqual(small_run.checkpoints(self.out), [f"step_{done:012}"])
        self.assertIn(f"resumed step {done}", self.finish(self.start_on_both(steps=done + 5)))

    def test_a_killed_starter_lets_all_save(self):
        process = self.start_on_both()
        small_run.wait_for_step(self.out, 3)
        process.kill()
        process.communicate()
        self.assert_nothing_runs()
        self.assertEqual(len(small_run.checkpoints(self.out)), 1)

    def test_a_killed_rank_ends_all(self):
        self.lose_a_rank_on("alpha")

    def test_a_killed_rank_elsewhere_ends_all(self):
        self.lose_a_rank_on("beta")

    def lose_a_rank_on(self, host):
        process = self.start_on_both()
        small_run.wait_for_step(self.out, 3)
        private_world.kill(self.programs_on(host)[-1:])
        text = self.finish(process, 128 + signal.SIGKILL)
        self.assertIn("a rank was ended by signal 9", text)
        self.assert_nothing_runs()

    def test_a_host_that_is_gone_ends_all(self):
        process = self.start_on_both()
        small_run.wait_for_step(self.out, 3)
        private_world.kill(hosts.processes_on("beta", "orted") + self.programs_on("beta"))
        process.communicate(timeout=60)
        self.assertNotIn(process.returncode, (0, 75))
        self.assert_nothing_runs()

    def test_a_cable_that_is_pulled_ends_all(self):
        process = self.start_on_both()
        small_run.wait_for_step(self.out, 3)
        hosts.pull_the_cable()
        self.assertIn("a host may be gone", self.finish(process, 3))
        self.assert_nothing_runs()
        hosts.plug_the_cable_in()

    def test_a_folder_that_is_not_shared_is_told(self):
        (FOLDER / self.out).mkdir()
        hosts.hide("beta", FOLDER / self.out)
        text = self.finish(self.start_on_both(), 5)
        self.assertIn("host beta does not see what rank 0 writes into the run's folder", text)
        self.assertIn("--out in a folder that all hosts share", text)
        self.assertEqual(small_run.steps(self.out), [])
        self.assert_nothing_runs()
        hosts.show("beta", FOLDER / self.out)

    def test_data_that_a_host_lacks_are_told(self):
        folder = FOLDER / "texts"
        folder.mkdir()
        (folder / "text.txt").write_bytes(small_run.SETTINGS["data"].read_bytes())
        hosts.hide("beta", folder)
        text = self.finish(self.start_on_both(data=folder), 6)
        self.assertIn(str(folder), text)
        self.assert_nothing_runs()


if __name__ == "__main__":
    private_world.enter("ip", "mpirun", "nsenter")
    small_run.prepare()
    hosts.start()
    os.environ |= dict(word.split("=") for word in EXPORTED)
    HOSTFILE.write_text("".join(f"{name} slots=2\n" for name in hosts.NAMES))
    unittest.main(argv=["hosts_test.py", *small_run.CHOSEN], verbosity=2)

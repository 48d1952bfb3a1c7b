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

    def own_mpirun(self, *words, map_by="slot", **more):
        """Two ranks on each host, started by hand."""
        mpirun = ["mpirun", "--host", "alpha:2,beta:2", "--map-by", map_by, "--mca", "btl", "tcp,self", "-n", 4]
        for name in os.environ:
            mpirun += ["-x", name] if name.startswith("ZERO_") else []
        words = [*mpirun, PROGRAM, "train", *words, *flags(self.out, **more)]
        return subprocess.Popen(hosts.words_on("alpha", *words), text=True, **SILENT)

    def test_own_mpirun(self):
        self.finish(self.start("one", "--ranks=4", "--deterministic", steps=20, **dump("one_state")))
        self.finish(self.own_mpirun("--deterministic", steps=20, **dump(f"{self.out}_state")))
        self.assert_same_numbers("one", self.out)

    def test_groups_of_a_host_let_little_travel(self):
        self.count_bytes_of_groups("fp32", 4)

    def test_weights_in_bf16_travel_in_half_the_bytes(self):
        self.count_bytes_of_groups("bf16", 2)

    def count_bytes_of_groups(self, dtype, size):
        """With W ranks, G on a host, M_w and M_g bytes of all weights and gradients: (M_w + M_g) (W - G) / (G W)."""
        words = "--deterministic", f"--dtype={dtype}"
        one = f"{self.out}_one"
        self.finish(self.start(one, *words, steps=5))
        of_step = {}
        for group in "all", "host":
            out = f"{self.out}_{group}"
            self.finish(self.start(out, *words, "--ranks=4", f"--hosts={HOSTFILE}", f"--shard-over={group}", steps=5))
            self.assertEqual([record["loss"] for record in small_run.records(one, "step")],
                             [record["loss"] for record in small_run.records(out, "step")])
            of_step[group] = small_run.records(out, "step")[-1]
        gradients = of_step["all"]["bytes_reduced"] * 4 // 3  # a rank gives three of its four parts to others
        weights = gradients * size // 4
        gathered = of_step["all"]["bytes_gathered"] * 4 // 3  # some of them twice
        self.assertEqual(of_step["all"]["bytes_across_hosts"], (gathered + gradients) * 2 // 4)
        self.assertLessEqual(gathered, 2 * weights)
        self.assertEqual(of_step["host"]["bytes_across_hosts"], (weights + gradients) * 2 // (2 * 4))

    def test_groups_need_as_many_ranks_on_each_host(self):
        uneven = FOLDER / "uneven"
        uneven.write_text("alpha slots=1\nbeta slots=2\n")
        words = "--ranks=3", f"--hosts={uneven}", "--shard-over=host"
        self.assertIn("hosts have different numbers of ranks", self.finish(self.start(self.out, *words, global_batch=6), 2))
        self.assert_nothing_runs()

    def test_groups_need_ranks_in_the_order_of_hosts(self):
        text = self.finish(self.own_mpirun("--shard-over=host", map_by="node"), 2)
        self.assertIn("the ranks of a host are not neighbours", text)
        self.assert_nothing_runs()

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

#!/usr/bin/env python3
"""The job script of docs/cluster.md under a Slurm of one machine. slurm_test.py PROGRAM"""

import os
import subprocess
import unittest
from pathlib import Path

import private_world
import slurm
import small_run
from private_world import FOLDER
from small_run import dump, flags

SCRIPT = Path(__file__).resolve().parents[2] / "examples/cluster/train.sbatch"


def output_of(*words):
    """What a command says, and its exit code."""
    result = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60)
    return result.stdout, result.returncode


class JobScript(small_run.Case):
    script = SCRIPT

    def submit(self, *options, steps=100000, delay="adam=20", **more):
        self.log = FOLDER / f"{self.out}.log"
        return slurm.submit("--ntasks=2", f"--output={self.log}", *options, self.script,
                            *flags(self.out, steps, delay=delay, dump_state=FOLDER / f"{self.out}_state", **more))

    def assert_completed_in_parts(self, job, steps):
        """It saved before each requeue, and its numbers are those of a run that nobody stopped."""
        self.assertEqual(slurm.wait_for_end(job), "COMPLETED", self.log.read_text())
        stops, resumes = (small_run.records(self.out, kind) for kind in ("stop", "resume"))
        self.assertGreaterEqual(len(stops), 1)
        self.assertEqual((len(stops), len(resumes)), 2 * (int(slurm.field(job, "Restarts")),))
        whole = f"{self.out}_whole"
        text, code = output_of("srun", "-n2", "--mpi=pmix", "zero_launch", "train",
                               *flags(whole, steps, **dump(f"{whole}_state")))
        self.assertEqual(code, 0, text)
        self.assert_same_numbers(whole, self.out)

    def stop(self, job):
        slurm.said("scancel", "--signal=USR1", job)

    def test_it_stops_and_goes_on(self):
        job = self.submit(steps=200)
        small_run.wait_for_step(self.out, 3)
        self.stop(job)
        self.assert_completed_in_parts(job, 200)

    def test_the_time_limit_stops_it_and_it_goes_on(self):
        # The shortest that Slurm knows, and a signal that says nothing.
        job = self.submit("--time=1", "--signal=CONT@1", steps=600, delay="adam=100")
        self.assert_completed_in_parts(job, 600)
        self.assertIn("stopped by the time limit", self.log.read_text())

    def test_a_requeue_from_outside_saves(self):
        job = self.submit(steps=200)
        small_run.wait_for_step(self.out, 3)
        slurm.said("scontrol", "requeue", job)
        self.assert_completed_in_parts(job, 200)

    def test_a_cancelled_job_saves_and_stays_cancelled(self):
        job = self.submit()
        small_run.wait_for_step(self.out, 3)
        slurm.said("scancel", job)
        self.assertEqual(slurm.wait_for_end(job), "CANCELLED")
        private_world.wait_for(lambda: small_run.records(self.out, "stop"), "a save")
        self.assertEqual(small_run.checkpoints(self.out), [f"step_{small_run.steps(self.out)[-1]:012}"])
        self.assertEqual(slurm.field(job, "JobState"), "CANCELLED")
        self.assertEqual(slurm.field(job, "Restarts"), "0")

    def test_a_failure_ends_the_job(self):
        job = self.submit(lr=-1)
        self.assertEqual(slurm.wait_for_end(job), "FAILED")
        self.assertEqual(slurm.field(job, "ExitCode"), "2:0")
        self.assertEqual(slurm.field(job, "Restarts"), "0")

    def test_a_killed_rank_ends_the_job(self):
        job = self.submit()
        small_run.wait_for_step(self.out, 3)
        private_world.kill(private_world.processes(self.out, "zero_launch")[-1:])
        self.assertEqual(slurm.wait_for_end(job, 30), "FAILED")
        self.assertEqual(slurm.field(job, "Restarts"), "0")


class JobScriptWithoutPmix(JobScript):
    """The line that stands in the script as a comment."""

    script = FOLDER / "without_pmix.sbatch"
    test_the_time_limit_stops_it_and_it_goes_on = None  # takes a minute and is the same

    @classmethod
    def setUpClass(cls):
        srun, mpirun = 'train=(srun', '#train=(zero_launch'
        text = SCRIPT.read_text()
        assert text.count(f"\n{srun}") == text.count(f"\n{mpirun}") == 1
        cls.script.write_text(text.replace(srun, "#" + srun).replace(mpirun, mpirun[1:]))

    def stop(self, job):
        (FOLDER / self.out / "STOP").touch()


class Refusals(unittest.TestCase):
    def test_srun_without_pmix(self):
        for kind in "none", "pmi2":
            text, code = output_of("srun", "-n2", f"--mpi={kind}", "zero_launch", "train", *flags("refused"))
            self.assertEqual(code, 3, text)
            self.assertIn("srun has started them without PMIx", text)
            self.assertEqual(text.count("srun --mpi=pmix zero_launch ..."), 1, text)

    def test_one_process_in_an_allocation_of_two_tasks(self):
        text, code = output_of("salloc", "-n2", "zero_launch", "train", *flags("refused"))
        self.assertEqual(code, 2, text)
        self.assertIn("srun --mpi=pmix zero_launch train ..., or --ranks 2; --ranks 1 if one is meant", text)

    def tearDown(self):
        self.assertFalse((FOLDER / "refused").exists())


if __name__ == "__main__":
    private_world.enter(*slurm.PROGRAMS)
    small_run.prepare()
    slurm.start()
    os.chdir(FOLDER)
    unittest.main(argv=["slurm_test.py", *small_run.CHOSEN], verbosity=2)

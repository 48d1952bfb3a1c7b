"""Slurm on one machine: munged, slurmctld and slurmd in a folder of their own."""

import os
import secrets
import socket
import subprocess
import time

import private_world

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel"]
HOST = "onenode"
FOLDER = private_world.FOLDER / "slurm"
# cred_expire: a job that is requeued waits so long, by default two minutes.
CONFIGURATION = f"""
ClusterName=zero
SlurmctldHost={HOST}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
KillWait=20
SchedulerParameters=sched_interval=2,batch_sched_delay=0
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdPidFile={FOLDER}/slurmd.pid
SlurmdSpoolDir={FOLDER}/spool
TmpFS={FOLDER}
StateSaveLocation={FOLDER}/state
SlurmdParameters=config_overrides
NodeName={HOST} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def start():
    """Start the daemons, which end with this world, and wait until a job could run."""
    FOLDER.mkdir()
    socket.sethostname(HOST)
    private_world.join_network("10.77.0.1")  # Slurm takes no address of the loopback
    private_world.name_hosts({HOST: "10.77.0.1"})
    (FOLDER / "slurm.conf").write_text(CONFIGURATION)
    os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
    _write_key(FOLDER / "munge.key")
    _daemon("munged", "--foreground", f"--socket={FOLDER}/munge.socket", f"--key-file={FOLDER}/munge.key",
            f"--pid-file={FOLDER}/munge.pid", f"--seed-file={FOLDER}/munge.seed", "--syslog")
    _wait_for(lambda: (FOLDER / "munge.socket").exists(), "munged")
    _daemon("slurmctld", "-D")
    _daemon("slurmd", "-D")
    _wait_for(lambda: said("sinfo", "--noheader", "--format=%T") == "idle", "an idle node")


def said(*words):
    """What a command prints, without the last newline."""
    result = subprocess.run(words, capture_output=True, text=True)
    return result.stdout.strip()


def submit(*words):
    """sbatch; returns the job's number."""
    return subprocess.run(["sbatch", "--parsable", *map(str, words)], check=True, capture_output=True,
                          text=True).stdout.strip()


def field(job, name):
    """A field of a job, as scontrol shows it: "JobState", "Restarts", "ExitCode"."""
    for word in said("scontrol", "show", "job", job).split():
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return ""


def wait_for_end(job, limit=180):
    """Until the job is over and will not come back; returns its state."""
    _wait_for(lambda: field(job, "JobState") in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"),
              f"the end of job {job}", limit)
    return field(job, "JobState")


def _write_key(path):
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(1024))


def _daemon(name, *words):
    with open(FOLDER / f"{name}.out", "w") as log:
        subprocess.Popen([name, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _wait_for(condition, what, limit=30):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            logs = [f"{path}:\n{path.read_text()[-2000:]}" for path in sorted(FOLDER.glob("*.out"))]
            raise TimeoutError(f"waited {limit} s for {what}\n" + "\n".join(logs))
        time.sleep(0.1)

"""A world of its own for a test: processes, mounts, network, host name. It ends with the test, however that ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SKIPPED = 77  # as ctest knows it
FOLDER = Path("/mnt")  # of memory, seen by this world alone
_UNSHARE = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net", "--uts", "--ipc"]
# bash buries the orphans of this world, as init does; behind an exec it would not.
_INIT = ["bash", "-c", '"$@"; exit $?', "init"]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def enter(*programs):
    """Start the calling script again in a world of its own; skip it where that or one of these programs is missing."""
    if missing := [program for program in programs if shutil.which(program) is None]:
        skip(f"not installed: {', '.join(missing)}")
    if os.environ.get("IN_PRIVATE_WORLD"):
        return _furnish()
    if subprocess.run(_UNSHARE + ["true"], capture_output=True).returncode != 0:
        skip("namespaces need root")
    os.environ["IN_PRIVATE_WORLD"] = "1"
    os.execvp(_UNSHARE[0], _UNSHARE + _INIT + [sys.executable, *sys.argv])


def name_hosts(addresses):
    """Let these names be known: {"name": "10.0.0.1"}."""
    lines = ["127.0.0.1 localhost"] + [f"{address} {name}" for name, address in addresses.items()]
    (FOLDER / "etc_hosts").write_text("\n".join(lines) + "\n")
    run("mount", "--bind", FOLDER / "etc_hosts", "/etc/hosts")


def join_network(address):
    """An interface with this address, behind which nobody is."""
    run("ip", "link", "add", "name", "net0", "type", "veth", "peer", "name", "nobody")
    run("ip", "address", "add", f"{address}/24", "dev", "net0")
    for name in "net0", "nobody":
        run("ip", "link", "set", name, "up")


def wait_for(condition, what, limit=30):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit} s for {what}")
        time.sleep(0.05)


def processes(text, program=None):
    """Ids of those with this text in their command line, zombies apart; `program`: its name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            if words and text.encode() in words and program in (None, (folder / "comm").read_text().strip()):
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    return sorted(found)


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


def _furnish():
    run("mount", "-t", "tmpfs", "-o", "mode=755", "none", FOLDER)
    run("ip", "link", "set", "lo", "up")
    os.environ["TMPDIR"] = str(FOLDER)  # session folders of mpirun end here too

"""Two hosts on one machine: each has its own name, network and mounts; a cable joins them."""

import os
import subprocess

import private_world
from private_world import run

NAMES = ["alpha", "beta"]
INTERFACE = "net0"
_FOLDER = private_world.FOLDER / "hosts"
_AGENT = _FOLDER / "enter"
# As ssh does: nothing of the caller's environment comes along.
_ENTER = f"""#!/bin/sh
host=$1; shift
exec nsenter --target $(cat {_FOLDER}/$host) --net --uts --mount -- \\
  env -i PATH="$PATH" HOME="$HOME" TMPDIR="$TMPDIR" sh -c "$*"
"""


def start():
    _FOLDER.mkdir()
    private_world.name_hosts({name: _address(name) for name in NAMES})
    for name in NAMES:
        # The processes that keep a host's namespaces.
        keeper = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c",
                                   f"hostname {name}; touch {_FOLDER}/{name}.up; exec sleep infinity"])
        (_FOLDER / name).write_text(str(keeper.pid))
        private_world.wait_for((_FOLDER / f"{name}.up").exists, f"host {name}")
    run("ip", "link", "add", "name", "one", "type", "veth", "peer", "name", "other")
    for name, end in zip(NAMES, ["one", "other"]):
        run("ip", "link", "set", end, "netns", _keeper(name), "name", INTERFACE)
        on(name, "ip", "address", "add", f"{_address(name)}/24", "dev", INTERFACE)
        # What Docker leaves: the same address on every host, and nobody behind it.
        on(name, "ip", "link", "add", "name", "docker0", "type", "bridge")
        on(name, "ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
        for interface in "lo", INTERFACE, "docker0":
            on(name, "ip", "link", "set", interface, "up")
    _AGENT.write_text(_ENTER)
    _AGENT.chmod(0o755)
    os.environ["OMPI_MCA_plm_rsh_agent"] = str(_AGENT)


def pull_the_cable():
    on(NAMES[1], "ip", "link", "set", INTERFACE, "down")


def plug_the_cable_in():
    on(NAMES[1], "ip", "link", "set", INTERFACE, "up")


def words_on(name, *words):
    """The command that runs these words on a host."""
    return ["nsenter", "--target", _keeper(name), "--net", "--uts", "--mount", "--", *map(str, words)]


def on(name, *words):
    run(*words_on(name, *words))


def hide(name, folder):
    """Give a host a folder of its own where the others have a shared one."""
    on(name, "mount", "-t", "tmpfs", "none", folder)


def show(name, folder):
    on(name, "umount", folder)


def processes_on(name, text, program=None):
    """As private_world.processes, of one host."""
    network = _network_of(_keeper(name))
    return [pid for pid in private_world.processes(text, program) if _network_of(pid) == network]


def _network_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:  # it has just ended
        return None


def _keeper(name):
    return (_FOLDER / name).read_text()


def _address(name):
    return f"10.0.0.{1 + NAMES.index(name)}"

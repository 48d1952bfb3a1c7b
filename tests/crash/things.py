"""Things of others, of every kind, and whether they are still what they were."""

import os
import socket
import stat
from pathlib import Path


def make_file(path, _):
    path.write_text("not the program's\n")


def make_folder(path, _):
    path.mkdir()
    (path / "notes").write_text("not the program's\n")


def make_socket(path, _):
    server = socket.socket(socket.AF_UNIX)
    here = os.open(path.parent, os.O_RDONLY)  # the name of a socket may have 107 bytes
    server.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)
    server.close()


def make_device(path, _):
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null; PermissionError: not here


# How each is made at a path; `outside` is a folder of the owner's with a file and a folder in it.
KINDS = {
    "file": make_file,
    "link to a file": lambda path, outside: path.symlink_to(outside / "file"),
    "link to a folder": lambda path, outside: path.symlink_to(outside / "folder"),
    "dangling link": lambda path, outside: path.symlink_to(outside / "nowhere"),
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": make_socket,
    "folder": make_folder,
    "device": make_device,
}


def make_outside(folder):
    folder.mkdir()
    make_file(folder / "file", None)
    make_folder(folder / "folder", None)


def look_at(path):
    """What a thing is: its kind, its identity, what it holds or leads to; of a folder, all that is in it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return "link", status.st_ino, os.readlink(path)
    if stat.S_ISDIR(status.st_mode):
        return "folder", status.st_ino, {name: look_at(path / name) for name in sorted(os.listdir(path))}
    content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    return stat.S_IFMT(status.st_mode), status.st_ino, status.st_mtime_ns, content


def is_appended(before, after):
    """The same file, whose bytes are where they were."""
    return (before is not None and after is not None and before[:2] == after[:2] and before[0] == stat.S_IFREG
            and after[3].startswith(before[3]))

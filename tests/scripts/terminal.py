"""A program on a terminal that a test types at."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

LIMIT = 60  # seconds, for what takes one
CTRL_C, CTRL_D, CTRL_Z, UP = "\x03", "\x04", "\x1a", "\033[A"


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    return {**kept, "TERM": "xterm", **more}


class Terminal:
    """A program on a terminal of its own, with all it writes."""

    def __init__(self, words, columns=0, **variables):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        # It leads a session, which the terminal controls: keys make signals.
        self.program = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**variables),
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.text = ""

    def read_until(self, condition):
        """Read until the condition holds, or to the end; False: neither came in time."""
        end = time.monotonic() + LIMIT
        while not condition(self.text):
            if not select.select([self.ours], [], [], max(0, end - time.monotonic()))[0]:
                return False
            try:
                self.text += os.read(self.ours, 1 << 16).decode()
            except OSError:  # nobody writes to it any more
                return condition(self.text)
        return True

    def type(self, keys):
        """What was read before is forgotten."""
        self.text = ""
        os.write(self.ours, keys.encode())

    def is_edited(self, seconds=1):
        """Does the program get each key at once? It may take a moment behind its prompt."""
        end = time.monotonic() + seconds
        while (is_cooked := termios.tcgetattr(self.ours)[3] & termios.ICANON) and time.monotonic() < end:
            time.sleep(0.01)
        return not is_cooked

    def abandon(self):
        """For the end of a test that has failed: its session ends with the program."""
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait(LIMIT)

    def end(self):
        """The exit code, when it has ended."""
        self.read_until(lambda text: False)
        self.is_as_before = termios.tcgetattr(self.ours) == self.before
        os.close(self.ours)
        return self.program.wait(LIMIT)

"""Token files in LLMQ's format, version 2: a header of 1024 bytes, then uint16 or uint32, little-endian.

Of the formats that zero reads it is the one that tells the width, the number and the vocabulary of its tokens, so nothing
has to be said again when training. The header counts in an int32: a longer corpus takes several files.
"""
import os
import struct
import sys
from array import array

from tokens.problem import Problem

MAGIC, VERSION, HEADER_BYTES = b"BIN.TOK\n", 2, 1024
MOST_TOKENS = 2**31 - 1
SYNC_TOKENS = 1 << 26  # so that no end waits for gigabytes


def header(bytes_per_token, num_tokens, vocabulary):
    return struct.pack("<8s5i", MAGIC, VERSION, bytes_per_token, num_tokens, vocabulary, 0).ljust(HEADER_BYTES, b"\0")


def little_endian(tokens):
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens


class TokenWriter:
    """Write tokens to PATH, then PATH with -2, -3, ... before its suffix. Files get their names when they are whole."""

    def __init__(self, path, vocabulary, tokens_per_file=MOST_TOKENS):
        self.path, self.vocabulary, self.tokens_per_file = path, vocabulary, tokens_per_file
        self.bytes_per_token = 2 if vocabulary <= 1 << 16 else 4
        self.paths, self.num_tokens = [], 0
        self._open()

    def _open(self):
        stem, suffix = os.path.splitext(self.path)
        path = self.path if not self.paths else f"{stem}-{len(self.paths) + 1}{suffix}"
        if os.path.exists(path):
            raise Problem("the file is there already", path, "delete it, or name another --out")
        self.paths.append(path)
        self.file = open(path + ".part", "wb")
        self.file.write(b"\0" * HEADER_BYTES)
        self.in_file = self.unsynced = 0

    def write(self, ids):
        begin = 0
        while begin < len(ids):
            if self.in_file == self.tokens_per_file:
                self._finish_file()
                self._open()
            part = ids[begin:begin + self.tokens_per_file - self.in_file]
            self.file.write(little_endian(array("H" if self.bytes_per_token == 2 else "I", part)))
            self.in_file += len(part)
            self.unsynced += len(part)
            if self.unsynced > SYNC_TOKENS:
                self.sync()
            begin += len(part)
        self.num_tokens += len(ids)

    def sync(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        self.unsynced = 0

    def _finish_file(self):
        self.file.seek(0)
        self.file.write(header(self.bytes_per_token, self.in_file, self.vocabulary))
        self.sync()
        self.file.close()

    def finish(self):
        """Names appear at the end, all of them."""
        self._finish_file()
        for path in self.paths:
            os.rename(path + ".part", path)

    def discard(self):
        self.file.close()
        for path in self.paths:
            if os.path.exists(path + ".part"):
                os.remove(path + ".part")


def numbers_in(text, where):
    """Tokens as people write them, with blanks between them."""
    words = text.split()
    if not words or not all(word.isdigit() for word in words):
        raise Problem("these are neither numbers of tokens nor a token file that make_tokens.py has written", where)
    return [int(word) for word in words]


def read_tokens(path, block=1 << 16):
    """Lists of tokens, up to `block` of a token file. Of a text, or of standard input (-), the numbers that it holds."""
    if path == "-":
        yield numbers_in(sys.stdin.buffer.read(), "standard input")
        return
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
        if not head.startswith(MAGIC):
            yield numbers_in(head + file.read(), path)
            return
        _, version, width, count = struct.unpack_from("<8s3i", head.ljust(24, b"\0"))
        if version not in (1, 2) or width not in (2, 4):
            raise Problem("this is no token file that make_tokens.py has written", path)
        if os.path.getsize(path) != HEADER_BYTES + width * count:
            raise Problem(f"the header announces {count} tokens of {width} bytes, the file has "
                          f"{os.path.getsize(path)} bytes", path, "copy the file again")
        while tokens := array("H" if width == 2 else "I", file.read(width * block)):
            yield little_endian(tokens)

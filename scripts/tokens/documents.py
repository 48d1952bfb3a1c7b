"""Documents out of text files, folders and JSONL, each as pieces that overlap, in bounded memory."""
import codecs
import os
from collections import namedtuple

from tokens.json_lines import NO_UTF8, Input, is_json_lines, read_lines
from tokens.problem import DataProblem, Problem, byte_of
from tokens.shapes import from_text

BLOCK_BYTES = 1 << 20
OVERLAP = 1024  # characters, at most

# The first `overlap` characters of `text` were the last of the piece before.
Piece = namedtuple("Piece", "text overlap is_first is_last where")


def files_in(paths):
    """All files, folders at any depth in bytewise order, without hidden names, links and empty files in them."""
    for path in paths:
        if not os.path.exists(path):
            raise Problem("the path does not exist", path)
        yield from sorted(files_below(path), key=os.fsencode) if os.path.isdir(path) else [path]


def files_below(folder):
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files_below(entry.path)
        elif entry.stat().st_size:
            yield entry.path


def pieces_of(path, key, on_read, piece_chars):
    """The pieces of a file's documents: one document, or one per line of JSONL, which has its text in that key.

    on_read: as Input's.
    """
    if is_json_lines(path):
        for line, byte, (text,) in read_lines(path, from_text(key), on_read):
            yield from cut([text], piece_chars, byte_of(path, byte, line))
    else:
        yield from cut(decoded_blocks(path, on_read), piece_chars, path)


def decoded_blocks(path, on_read):
    """A file's text, a block at a time. Invalid UTF-8 is told by line and byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before, line = 0, 1  # bytes and lines of the blocks before
    with Input(path, on_read) as file:
        while True:
            block = file.read(BLOCK_BYTES)
            held = decoder.getstate()[0]
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                where = byte_of(path, before - len(held) + error.start, line + (held + block)[:error.start].count(b"\n"))
                raise DataProblem(NO_UTF8[0], where, NO_UTF8[1]) from None
            if not block:
                return
            yield text
            before, line = before + len(block), line + block.count(b"\n")


def cut(blocks, piece_chars, where):
    """Pieces of one document."""
    overlap = min(OVERLAP, piece_chars // 2)
    text, is_first = "", True
    for block in blocks:
        text, begin = text + block, 0
        while len(text) - begin > piece_chars:
            yield Piece(text[begin:begin + piece_chars], 0 if is_first else overlap, is_first, False, where)
            begin, is_first = begin + piece_chars - overlap, False
        text = text[begin:]
    if text:
        yield Piece(text, 0 if is_first else overlap, is_first, True, where)
